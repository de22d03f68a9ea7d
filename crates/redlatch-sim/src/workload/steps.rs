//! The steps of a round that kinds with guards share.

use std::{
    fmt,
    future::{Future, IntoFuture},
};

use redlatch_core::{Error, ErrorKind};

use super::{Work, Worker, worker::fragile};
use crate::{faults::Fault, names::label};

impl Worker {
    /// Thinks before a round.
    pub(super) async fn rest(&mut self) {
        let span = match self.rng.below(10) {
            0 => self.rng.between(0, self.plan.lease * 1500),
            1..=4 => 0,
            _ => self.rng.between(0, 50_000),
        };
        self.think(span).await;
    }

    /// Draws the µs of one piece of work under a guard.
    pub(super) fn draw_work(&mut self) -> u64 {
        let lease = self.plan.lease * 1000;
        // A takeover shows best during a long hold.
        let long = if self.has(Fault::TwoMasters) { 4 } else { 1 };
        match self.rng.below(20) {
            long_work if long_work < long => self.rng.between(0, lease * 3),
            1..=3 => self.rng.between(0, lease),
            _ => self.rng.between(0, 20_000),
        }
    }

    /// Waits for the call `what` for `names`, which may take `limit` µs, or drops it half-way.
    /// Returns no result if it was dropped.
    pub(super) async fn calls<T>(
        &mut self,
        names: &[usize],
        what: &str,
        limit: u64,
        call: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> Option<Result<T, Error>> {
        let began = self.exec.now();
        let result = if self.has(Fault::Cancel) && self.rng.chance(200) {
            self.cancelled(call, names[0]).await
        } else {
            Some(self.timed(what, limit, call).await)
        };
        if let Some(Err(error)) = &result {
            self.judge(names, began, limit, error);
        }
        result
    }

    /// Checks the error of a call for `names` that began at `began` and had `limit` µs. No fault
    /// lasts, so no error may say that a server is unfit. A server that answers is not silent.
    pub(super) fn judge(&self, names: &[usize], began: u64, limit: u64, error: &Error) {
        let who = &self.label;
        if is_final(error) {
            let what = format!("{who} is told that it can never succeed: {error}");
            self.watch.violate("passes", what);
        }
        // The patience counts from the last answer. A call that waits for longer may have had none
        // for that time because it asked nothing.
        let shared = &self.life.shared;
        let soon = shared.exec.now() - began < shared.plan.patience * 1_000;
        let silent = is_silence(error) && limit >= ENOUGH && soon;
        if silent && shared.answers(names, began) {
            let what = format!("{who} is told of a silent server, and it answers: {error}");
            self.watch.violate("answered", what);
        }
    }

    /// Gives a guard up in one of the many ways: drops it, or drops its release half-way. Returns
    /// it if its release is to be awaited.
    pub(super) async fn gives_up<H, F: Future + Unpin>(
        &mut self,
        held: H,
        release: impl FnOnce(H) -> Option<F>,
    ) -> Option<H> {
        match self.rng.below(10) {
            0..=3 => drop(held),
            4 if self.has(Fault::Cancel) => {
                let polls = self.rng.between(1, 4);
                if let Some(release) = release(held) {
                    let _ = fragile(release, polls).await;
                }
            }
            _ => return Some(held),
        }
        None
    }

    /// Ends a hold by force, at once or as `after_lease` says. May take `limit` µs.
    pub(super) fn forces<F>(
        &mut self,
        name: usize,
        limit: u64,
        force: F,
        after_lease: fn(F) -> F,
    ) -> Work<'_>
    where
        F: IntoFuture<Output: fmt::Debug, IntoFuture: Send> + Send + 'static,
    {
        Box::pin(async move {
            let gentle = self.rng.chance(500);
            let force = if gentle { after_lease(force) } else { force };
            self.inject(Fault::Force, || {
                format!("releases {} by force", label(name))
            });
            let forced = self.timed("force_release", limit, force.into_future());
            let forced = forced.await;
            self.say(|| format!("has forced {}: {forced:?}", label(name)));
        })
    }
}

/// Tells whether an error says that the server will never do.
pub(super) fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Protocol | ErrorKind::UnsupportedServer
    )
}

/// Tells whether an error says that a server does not answer.
pub(super) fn is_silence(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown
    )
}

/// The time in µs within which a server that answers has answered, on the slowest networks.
const ENOUGH: u64 = 510_000;
