//! Looks for the masters: the signs that one is due, and the looks that have ended.

use tokio::sync::Notify;

use crate::base::sync::Watch;

/// The looks of one client. They follow one another.
#[derive(Debug)]
pub(super) struct Looks {
    /// Notified when the routes may be out of date.
    sign: Notify,
    rounds: Watch<Rounds>,
}

#[derive(Debug, Default)]
struct Rounds {
    begun: u64,
    ended: u64,
    /// Whether a connection of this client has ever failed.
    failed: bool,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self {
            sign: Notify::new(),
            rounds: Watch::new(Rounds::default()),
        }
    }

    /// Reports a sign that the routes may be out of date.
    pub(super) fn want(&self) {
        self.sign.notify_one();
    }

    /// Reports a connection that broke, or that could not be made.
    pub(super) fn failed(&self) {
        self.rounds.change(|rounds| {
            rounds.failed = true;
            false
        });
        self.want();
    }

    /// Waits for a sign.
    pub(super) async fn wanted(&self) {
        self.sign.notified().await;
    }

    /// Records that a look begins.
    pub(super) fn begin(&self) {
        self.rounds.change(|rounds| {
            rounds.begun += 1;
            false
        });
    }

    /// Records that the look has ended, and the routes follow its result.
    pub(super) fn end(&self) {
        self.rounds.change(|rounds| {
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
        let state = |rounds: &Rounds| (rounds.failed, rounds.begun);
        let (failed, begun) = self.rounds.look(state);
        if !failed {
            return;
        }
        self.want();
        let rounds = self.rounds.watch();
        rounds
            .find(|rounds| (rounds.ended > begun).then_some(()))
            .await;
    }
}
