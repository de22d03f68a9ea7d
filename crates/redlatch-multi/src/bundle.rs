//! Holds of which a number has to last.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redlatch_core::{Error, ErrorKind, Held, HoldState, LossCause, Released};

/// Holds of which `needed` have to last.
#[derive(Debug)]
pub(crate) struct Bundle {
    holds: Vec<Held>,
    needed: usize,
}

impl Bundle {
    pub(crate) const fn new(holds: Vec<Held>, needed: usize) -> Self {
        Self { holds, needed }
    }

    /// Changes the number that has to last.
    pub(crate) const fn needs(mut self, needed: usize) -> Self {
        self.needed = needed;
        self
    }

    /// Adds a hold that has to last as well.
    pub(crate) fn and(mut self, hold: Held) -> Self {
        self.holds.push(hold);
        self.needed += 1;
        self
    }

    pub(crate) fn into_holds(self) -> Vec<Held> {
        self.holds
    }

    pub(crate) fn holds(&self) -> &[Held] {
        &self.holds
    }

    /// Returns the state of the whole: lost, with the cause of the first loss found, when fewer
    /// than needed are left.
    pub(crate) fn state(&self) -> HoldState {
        let (mut held, mut unknown, mut cause) = (0, 0, LossCause::Expired);
        for hold in &self.holds {
            match hold.state() {
                HoldState::Held => held += 1,
                HoldState::Lost(why) => cause = why,
                _ => unknown += 1,
            }
        }
        if held >= self.needed {
            HoldState::Held
        } else if held + unknown >= self.needed {
            HoldState::Unknown
        } else {
            HoldState::Lost(cause)
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.state() {
            HoldState::Lost(cause) => Err(self.lost_by(cause)),
            _ => Ok(()),
        }
    }

    /// Returns the error of a loss, which names the hold that was lost.
    fn lost_by(&self, cause: LossCause) -> Error {
        let is_lost = |hold: &&Held| hold.state() == HoldState::Lost(cause);
        let error = Error::lost(cause);
        match self.holds.iter().rfind(is_lost) {
            Some(hold) => error.about(hold.kind(), hold.name()),
            None => error,
        }
    }

    /// Returns how long enough of them may be relied on: the remaining time of the hold that
    /// completes the number.
    pub(crate) fn remaining(&self) -> Duration {
        let mut left: Vec<_> = self.holds.iter().map(Held::remaining).collect();
        left.sort_unstable();
        let at = left.len().checked_sub(self.needed);
        at.and_then(|at| left.get(at)).copied().unwrap_or_default()
    }

    /// Resolves when fewer than needed are left, each by its own clock.
    pub(crate) fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        let mut losses: FuturesUnordered<_> = self.holds.iter().map(Held::lost).collect();
        let spare = self.holds.len() - self.needed.min(self.holds.len());
        async move {
            for _ in 0..spare {
                losses.next().await;
            }
            match losses.next().await {
                Some(cause) => cause,
                None => std::future::pending().await,
            }
        }
    }

    /// Resolves `before` the deadline of the hold without which too few are left, and when too few
    /// are left. A hold whose deadline has come so near counts from then on.
    pub(crate) fn ending(
        &self,
        before: Duration,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let endings = self.holds.iter().map(|hold| hold.ending(before));
        let mut endings: FuturesUnordered<_> = endings.collect();
        let spare = self.holds.len() - self.needed.min(self.holds.len());
        async move {
            for _ in 0..=spare {
                if endings.next().await.is_none() {
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Runs `future` while enough of them last.
    pub(crate) async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let mut lost = pin!(self.lost());
        poll_fn(|context: &mut Context<'_>| {
            // Checks the clocks, and so notices a loss before its timer fires.
            self.check()?;
            if let Poll::Ready(cause) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_by(cause)));
            }
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Extends all of them at once; enough have to succeed.
    pub(crate) async fn extend(&self, span: Duration) -> Result<(), Error> {
        let results = join_all(self.holds.iter().map(|hold| hold.extend(span))).await;
        let extended = results.iter().filter(|result| result.is_ok()).count();
        if extended >= self.needed {
            return Ok(());
        }
        let error = results.into_iter().find_map(Result::err);
        Err(error.unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "nothing is held")))
    }

    /// Releases all of them at once.
    pub(crate) async fn release(self) -> Vec<Result<Released, Error>> {
        let releases: Vec<Pin<Box<dyn Future<Output = _> + Send>>> = self
            .holds
            .into_iter()
            .map(|hold| Box::pin(hold.release()) as _)
            .collect();
        join_all(releases).await
    }
}
