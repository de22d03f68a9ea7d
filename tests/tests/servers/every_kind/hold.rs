//! One face for what is held, of whatever kind.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redlatch::{
    CountDownLatch, Error, FairLockGuard, Held, LockGuard, LossCause, MultiGuard,
    PermitExpirableSemaphore, PermitId, ReadGuard, RedGuard, Released, SemaphorePermit, WriteGuard,
    permits::PermitRelease,
};

/// What somebody holds. Of a latch: the duty to count down once more.
#[async_trait]
pub(super) trait Hold: fmt::Debug + Send + Sync {
    /// Says whether it is believed in at this instant. Asks nobody.
    fn believed(&self) -> bool;

    /// Returns how long it may be relied on; `None` where there is no lease.
    fn left(&self) -> Option<Duration>;

    /// Says whether it is renewed without being asked for.
    fn renews(&self) -> bool;

    /// Returns the fencing token, where there is one.
    fn fence(&self) -> Option<u64> {
        None
    }

    /// Resolves when it is lost.
    fn told(&self) -> BoxFuture<'static, LossCause>;

    async fn prolong(&self, span: Duration) -> Result<(), Error>;

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error>;
}

/// What became of what was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseOutcome {
    /// It had lasted until then.
    Ended,
    /// It was over before.
    WasOver,
    /// It was sent again, and the server no longer knows what the first request found.
    Unsure,
}

impl ReleaseOutcome {
    fn of_one(released: Result<Released, Error>) -> Result<Self, Error> {
        released.map(Self::from)
    }

    /// Of several members: what became of one that did not simply end, if there is one.
    fn of_all(members: Vec<(String, Result<Released, Error>)>) -> Result<Self, Error> {
        let mut all = Self::Ended;
        for (_, outcome) in members {
            let one = Self::from(outcome?);
            if one != Self::Ended {
                all = one;
            }
        }
        Ok(all)
    }

    /// Of several nodes: a minority does not count, whatever it says.
    fn of_most(nodes: Vec<(String, Result<Released, Error>)>) -> Result<Self, Error> {
        let ended = |outcome: &Result<Released, Error>| matches!(outcome, Ok(Released::Free));
        let most = nodes.iter().filter(|(_, outcome)| ended(outcome)).count() * 2 > nodes.len();
        if most {
            Ok(Self::Ended)
        } else {
            Self::of_all(nodes)
        }
    }
}

impl From<Released> for ReleaseOutcome {
    fn from(released: Released) -> Self {
        match released {
            Released::Free => Self::Ended,
            Released::Unconfirmed => Self::Unsure,
            Released::StillHeld(left) => panic!("there was one guard, and {left} are left"),
            _ => Self::WasOver,
        }
    }
}

macro_rules! guards {
    ($($guard:ident, $fence:expr, $outcome:expr;)*) => {$(
        #[async_trait]
        impl Hold for $guard {
            fn believed(&self) -> bool {
                self.check().is_ok()
            }

            fn left(&self) -> Option<Duration> {
                Some(self.remaining())
            }

            fn renews(&self) -> bool {
                true
            }

            fn fence(&self) -> Option<u64> {
                let fence: fn(&Self) -> Option<u64> = $fence;
                fence(self)
            }

            fn told(&self) -> BoxFuture<'static, LossCause> {
                Box::pin(self.lost())
            }

            async fn prolong(&self, span: Duration) -> Result<(), Error> {
                self.extend(span).await
            }

            async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
                $outcome(self.release().await)
            }
        }
    )*};
}

guards! {
    LockGuard, |guard| Some(Held::token(guard).as_u64()), ReleaseOutcome::of_one;
    FairLockGuard, |guard| Some(Held::token(guard).as_u64()), ReleaseOutcome::of_one;
    WriteGuard, |guard| Some(guard.token().as_u64()), ReleaseOutcome::of_one;
    ReadGuard, |guard| Some(guard.token().as_u64()), ReleaseOutcome::of_one;
    SemaphorePermit, |_| None, ReleaseOutcome::of_one;
    // Each member has its own, and they rise together.
    MultiGuard, |guard| guard.members().iter().map(|held| held.token().as_u64()).min(), ReleaseOutcome::of_all;
    RedGuard, |_| None, ReleaseOutcome::of_most;
}

/// Permits with ids, whose holder counts for itself: from before it asked, less the margin of two
/// clocks.
#[derive(Debug)]
pub(super) struct Ids {
    semaphore: PermitExpirableSemaphore,
    ids: Vec<PermitId>,
    until: Mutex<Instant>,
}

impl Ids {
    pub(super) fn new(
        semaphore: PermitExpirableSemaphore,
        ids: Vec<PermitId>,
        asked: Instant,
        lease: Duration,
    ) -> Self {
        Self {
            semaphore,
            ids,
            until: Mutex::new(asked + trusted(lease)),
        }
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a lease two clocks agree on, each within one per cent.
fn trusted(lease: Duration) -> Duration {
    lease - lease / 50 - Duration::from_millis(4)
}

#[async_trait]
impl Hold for Ids {
    fn believed(&self) -> bool {
        Instant::now() < self.until()
    }

    fn left(&self) -> Option<Duration> {
        Some(self.until().saturating_duration_since(Instant::now()))
    }

    fn renews(&self) -> bool {
        false
    }

    fn told(&self) -> BoxFuture<'static, LossCause> {
        let until = self.until();
        Box::pin(async move {
            tokio::time::sleep_until(until.into()).await;
            LossCause::Expired
        })
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        for id in &self.ids {
            let asked = Instant::now();
            self.semaphore.extend(id, span).await?;
            let until = self.until().max(asked + trusted(span));
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
        Ok(())
    }

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        let answers = self.semaphore.release_all(&self.ids).await?;
        let outcome = |answer: &PermitRelease| match answer {
            PermitRelease::Released => ReleaseOutcome::Ended,
            PermitRelease::Unconfirmed => ReleaseOutcome::Unsure,
            _ => ReleaseOutcome::WasOver,
        };
        let other = answers
            .iter()
            .map(outcome)
            .find(|one| *one != ReleaseOutcome::Ended);
        Ok(other.unwrap_or(ReleaseOutcome::Ended))
    }
}

/// A latch that opens when its holder counts down; nothing, once it has been passed.
#[derive(Debug)]
pub(super) struct Duty(pub(super) Option<CountDownLatch>);

#[async_trait]
impl Hold for Duty {
    fn believed(&self) -> bool {
        true
    }

    fn left(&self) -> Option<Duration> {
        None
    }

    fn renews(&self) -> bool {
        false
    }

    fn told(&self) -> BoxFuture<'static, LossCause> {
        Box::pin(std::future::pending())
    }

    /// There is nothing to be prolonged; what is left to be counted must be known still.
    async fn prolong(&self, _: Duration) -> Result<(), Error> {
        if let Some(latch) = &self.0 {
            assert_eq!(latch.count().await?, 1, "it was counted down once");
        }
        Ok(())
    }

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        if let Some(latch) = &self.0 {
            assert_eq!(latch.count_down(1).await?, 0, "it was counted down once");
        }
        Ok(ReleaseOutcome::Ended)
    }
}
