//! The election.

mod cancel;
mod ending;
mod forbidden;
mod late;
mod observing;

use crate::prelude::*;

/// Runs `follow` to its end beside a call whose work never returns.
async fn beside(lead: impl Future<Output = Result<(), Error>>, follow: impl Future<Output = ()>) {
    tokio::select! {
        led = lead => panic!("its work never returns: {led:?}"),
        () = follow => {}
    }
}
