//! Work that a hold permits.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use crate::{Held, LossCause};

/// Runs `work` while it may go on under `held`. If `looks`, each poll of the work begins with a
/// look at the hold. A planted fault leaves the looks out.
///
/// # Cancel safety
///
/// If the future is dropped, `work` is dropped.
pub async fn while_held<F: Future>(
    held: &Held,
    looks: bool,
    work: F,
) -> Result<F::Output, LossCause> {
    let mut work = pin!(work);
    // While the client closes, the work may go on until the end of the grace.
    let mut over = pin!(held.work_over());
    poll_fn(|context| {
        if looks {
            // This reads the clock, so it detects a loss that no timer has reported yet.
            held.work_until()?;
            if let Poll::Ready(cause) = over.as_mut().poll(context) {
                return Poll::Ready(Err(cause));
            }
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}
