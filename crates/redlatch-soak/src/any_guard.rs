//! A common interface of all guards.

use std::{future::Future, time::Duration};

use redlatch::{
    Error, FairLockGuard, Held, LockGuard, MultiGuard, PermitExpirableSemaphore, PermitId,
    ReadGuard, RedGuard, Released, SemaphorePermit, WriteGuard, permits::PermitRelease,
};

use crate::clock::{micros, now};

/// A hold that a worker keeps for a while.
pub(crate) trait AnyGuard: Send + 'static {
    /// Tells whether the hold is still believed to be valid.
    fn valid(&self) -> bool;

    /// Returns its names, each with its token, or 0 for none.
    fn parts(&self) -> Vec<(String, u64)>;

    /// Extends its time, if its kind can be extended.
    fn prolong(&self, span: Duration) -> impl Future<Output = Result<(), Error>> + Send;

    /// Releases it. Returns whether the server has freed it by this call.
    fn give_back(self) -> impl Future<Output = Result<bool, Error>> + Send;
}

macro_rules! any_guards {
    ($($guard:ident, $token:expr;)*) => {$(
        impl AnyGuard for $guard {
            fn valid(&self) -> bool {
                self.check().is_ok()
            }

            fn parts(&self) -> Vec<(String, u64)> {
                let token: fn(&Self) -> u64 = $token;
                vec![(self.name().to_owned(), token(self))]
            }

            async fn prolong(&self, span: Duration) -> Result<(), Error> {
                self.extend(span).await
            }

            async fn give_back(self) -> Result<bool, Error> {
                Ok(self.release().await? == Released::Free)
            }
        }
    )*};
}

any_guards! {
    LockGuard, |guard| Held::token(guard).as_u64();
    FairLockGuard, |guard| Held::token(guard).as_u64();
    WriteGuard, |guard| guard.token().as_u64();
    ReadGuard, |_| 0;
    SemaphorePermit, |_| 0;
}

impl AnyGuard for MultiGuard {
    fn valid(&self) -> bool {
        self.check().is_ok()
    }

    fn parts(&self) -> Vec<(String, u64)> {
        let members = self.members().iter();
        members
            .map(|held| (held.name().to_owned(), held.token().as_u64()))
            .collect()
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        self.extend(span).await
    }

    async fn give_back(self) -> Result<bool, Error> {
        freed(self.release().await)
    }
}

/// The guard of a red-lock, with its name, which the guard does not know.
pub(crate) struct Red(pub(crate) String, pub(crate) RedGuard);

impl AnyGuard for Red {
    fn valid(&self) -> bool {
        self.1.check().is_ok()
    }

    fn parts(&self) -> Vec<(String, u64)> {
        vec![(self.0.clone(), 0)]
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        self.1.extend(span).await
    }

    /// Releases it and reports no freed name: its waiters retry after pauses, so there is no
    /// hand-off to measure.
    async fn give_back(self) -> Result<bool, Error> {
        for (_, outcome) in self.1.release().await {
            outcome?;
        }
        Ok(false)
    }
}

/// A permit with an id. Its holder computes the deadline: the remaining time that the server
/// reported, counted from before the request, less the margin of two clocks.
pub(crate) struct Permit {
    pub(crate) semaphore: PermitExpirableSemaphore,
    pub(crate) id: PermitId,
    valid_until: u64,
}

impl Permit {
    pub(crate) fn new(
        semaphore: &PermitExpirableSemaphore,
        id: PermitId,
        asked: u64,
        left: Duration,
    ) -> Self {
        let margin = left / 50 + Duration::from_millis(4);
        Self {
            semaphore: semaphore.clone(),
            id,
            valid_until: asked + micros(left.saturating_sub(margin)),
        }
    }
}

impl AnyGuard for Permit {
    fn valid(&self) -> bool {
        now() < self.valid_until
    }

    fn parts(&self) -> Vec<(String, u64)> {
        let name = self.semaphore.name().unwrap_or_default();
        vec![(name.to_owned(), 0)]
    }

    async fn prolong(&self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    async fn give_back(self) -> Result<bool, Error> {
        Ok(self.semaphore.release(&self.id).await? == PermitRelease::Released)
    }
}

fn freed(members: Vec<(String, Result<Released, Error>)>) -> Result<bool, Error> {
    let mut all = true;
    for (_, outcome) in members {
        all &= outcome? == Released::Free;
    }
    Ok(all)
}
