//! One face for what is held, of whatever kind.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redlatch::{Error, LossCause, Released};

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
    pub(super) fn of_one(released: Result<Released, Error>) -> Result<Self, Error> {
        released.map(Self::from)
    }

    /// Of several members: what became of one that did not simply end, if there is one.
    pub(super) fn of_all(members: Result<Vec<(String, Released)>, Error>) -> Result<Self, Error> {
        let mut all = Self::Ended;
        for (_, outcome) in members? {
            let one = Self::from(outcome);
            if one != Self::Ended {
                all = one;
            }
        }
        Ok(all)
    }

    /// Of several nodes: a minority does not count, whatever it says.
    pub(super) fn of_most(nodes: Result<Vec<(String, Released)>, Error>) -> Result<Self, Error> {
        let nodes = nodes?;
        let ended = nodes.iter().filter(|(_, it)| *it == Released::Free).count();
        if ended * 2 > nodes.len() {
            Ok(Self::Ended)
        } else {
            Self::of_all(Ok(nodes))
        }
    }
}

impl From<Released> for ReleaseOutcome {
    fn from(released: Released) -> Self {
        match released {
            Released::Free => Self::Ended,
            Released::Unconfirmed => Self::Unsure,
            Released::StillHeld(left) => panic!("there was one guard, and {left} are left"),
            over => {
                // A failed test shows how.
                println!("over before its release: {over:?}");
                Self::WasOver
            }
        }
    }
}

/// Implements [`Hold`] for guards: each with its token, and the outcome of its release.
macro_rules! guards {
    ($($guard:ident, $fence:expr, $outcome:expr;)*) => {$(
        #[async_trait::async_trait]
        impl $crate::every_kind::hold::Hold for $guard {
            fn believed(&self) -> bool {
                self.check().is_ok()
            }

            fn left(&self) -> Option<std::time::Duration> {
                Some(self.remaining())
            }

            fn renews(&self) -> bool {
                true
            }

            fn fence(&self) -> Option<u64> {
                let fence: fn(&Self) -> Option<u64> = $fence;
                fence(self)
            }

            fn told(&self) -> futures_util::future::BoxFuture<'static, redlatch::LossCause> {
                Box::pin(self.lost())
            }

            async fn prolong(&self, span: std::time::Duration) -> Result<(), redlatch::Error> {
                self.extend(span).await
            }

            async fn give_back(
                self: Box<Self>,
            ) -> Result<$crate::every_kind::hold::ReleaseOutcome, redlatch::Error> {
                $outcome(self.release().await)
            }
        }
    )*};
}

pub(super) use guards;
