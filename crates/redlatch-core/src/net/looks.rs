//! Looks for the masters: the signs that one is due, and the looks that have ended.

use crate::base::sync::Watch;

/// The looks of one client. They follow one another.
#[derive(Debug, Default)]
pub(super) struct Looks(Watch<Rounds>);

#[derive(Debug, Default)]
struct Rounds {
    /// Whether there was a sign since the last look began that the routes may be out of date.
    wanted: bool,
    begun: u64,
    ended: u64,
    /// Whether a connection of this client has ever failed.
    failed: bool,
}

impl Looks {
    /// Reports a sign that the routes may be out of date.
    pub(super) fn want(&self) {
        self.0
            .change(|rounds| !std::mem::replace(&mut rounds.wanted, true));
    }

    /// Reports a connection that broke, or that could not be made.
    pub(super) fn failed(&self) {
        self.0.change(|rounds| {
            rounds.failed = true;
            !std::mem::replace(&mut rounds.wanted, true)
        });
    }

    /// Waits for a sign.
    pub(super) async fn wanted(&self) {
        self.0.when(|rounds| rounds.wanted).await;
    }

    /// Records that a look begins. The look covers all signs before.
    pub(super) fn begin(&self) {
        let mut rounds = self.0.lock();
        rounds.wanted = false;
        rounds.begun += 1;
    }

    /// Records that the look has ended, and the routes follow its result.
    pub(super) fn end(&self) {
        self.0.change(|rounds| {
            rounds.ended = rounds.begun;
            true
        });
    }

    /// Waits for the end of a look that begins from now on, if a connection has ever failed: the
    /// server that was just connected may have been replaced while it was away.
    ///
    /// "Guidelines for Redis clients with support for Redis Sentinel" asks for the same: look again
    /// whenever a connection breaks.
    pub(super) async fn confirmed(&self) {
        let (failed, begun) = self.0.look(|rounds| (rounds.failed, rounds.begun));
        if !failed {
            return;
        }
        self.want();
        self.0.when(|rounds| rounds.ended > begun).await;
    }
}
