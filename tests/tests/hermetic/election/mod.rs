//! The election.

mod cancel;
mod ending;
mod forbidden;
mod late;
mod observing;

use std::sync::atomic::{AtomicU32, Ordering};

use redlatch::Error;

/// Counts while it lives.
struct Alive<'a>(&'a AtomicU32);

impl<'a> Alive<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `follow` to its end beside a call whose work never returns.
async fn beside(lead: impl Future<Output = Result<(), Error>>, follow: impl Future<Output = ()>) {
    tokio::select! {
        led = lead => panic!("its work never returns: {led:?}"),
        () = follow => {}
    }
}
