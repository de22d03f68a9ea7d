//! The builders of an acquisition of permits with ids. Await a builder to run it.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use redlatch_core::{Error, ErrorKind, Held, WaitStrategy};
use redlatch_pool::{AcquirePermits, Pool, TryAcquirePermits, TryAcquirePermitsFor};

use crate::PermitId;

/// The ids of the acquired permits.
struct Taken(Vec<PermitId>);

impl Taken {
    fn one(self) -> Result<PermitId, Error> {
        let mut ids = self.0.into_iter();
        ids.next().ok_or_else(|| {
            let message = "a grant of one permit had none";
            Error::new(ErrorKind::Protocol, message)
        })
    }
}

impl From<Held> for Taken {
    fn from(held: Held) -> Self {
        let units = held.units();
        let (attempt, void_by) = held.hand_over();
        Self(
            (0..units)
                .map(|at| PermitId::new(&attempt, at, void_by))
                .collect(),
        )
    }
}

macro_rules! builders {
    ($($(#[$about:meta])* $builder:ident, $inner:ident, $output:ty, $read:expr;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug)]
        #[must_use = "nothing is acquired until this is awaited"]
        pub struct $builder($inner<Taken>);

        impl $builder {
            /// Sets the lease of the permits: 50 ms to 365 days. Default: the client's default
            /// lease, 30 s unless it was set.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let slots = client.permit_expirable_semaphore("render").permits_if_unset(1);
            /// let lost = slots.acquire().lease(Duration::from_secs(60)).await?;
            /// tokio::time::sleep(Duration::from_secs(61)).await;
            /// assert_eq!(slots.available_permits().await?, 1); // the lease has ended
            /// # drop(lost);
            /// # Ok(())
            /// # }
            /// ```
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0 = self.0.lease(lease);
                self
            }

            /// Attaches a note to the permits, for example their purpose: 1 to 256 bytes. The note
            /// may be removed when the lease of the acquisition has ended, even if the permit was
            /// extended.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// let slots = client.permit_expirable_semaphore("render").permits_if_unset(4);
            /// let id = slots.acquire().note("invoice 4711").await?;
            /// assert_eq!(slots.holders().await?[0].note.as_deref(), Some("invoice 4711"));
            /// # drop(id);
            /// # Ok(())
            /// # }
            /// ```
            pub fn note(mut self, note: &str) -> Self {
                self.0 = self.0.note(note);
                self
            }

            /// Sets how to wait. Default: the client's.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            /// use redlatch::{Backoff, WaitStrategy};
            ///
            /// let slots = client.permit_expirable_semaphore("render").permits_if_unset(4);
            /// // Ask every 500 ms, without a subscription.
            /// let poll = WaitStrategy::Poll(Backoff::constant(Duration::from_millis(500)));
            /// let id = slots.acquire().strategy(poll).await?;
            /// # drop(id);
            /// # Ok(())
            /// # }
            /// ```
            pub fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0 = self.0.strategy(strategy);
                self
            }
        }

        impl IntoFuture for $builder {
            type Output = Result<$output, Error>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                let run = self.0.into_future();
                Box::pin(async move { ($read)(run.await) })
            }
        }
    )*};
}

builders! {
    /// An acquisition of one permit that waits; await it. Gives its id.
    AcquireId, AcquirePermits, PermitId, |taken: Result<Taken, Error>| taken.and_then(Taken::one);
    /// An acquisition of one permit that does not wait; await it. Gives `None` if none is
    /// available, or others wait for it.
    TryAcquireId, TryAcquirePermits, Option<PermitId>, |taken: Result<Option<Taken>, Error>| taken?.map(Taken::one).transpose();
    /// An acquisition of one permit with a bounded wait; await it. Gives `None` if none was
    /// available at each look.
    TryAcquireIdFor, TryAcquirePermitsFor, Option<PermitId>, |taken: Result<Option<Taken>, Error>| taken?.map(Taken::one).transpose();
    /// An acquisition that waits; await it. Gives an id for each requested permit.
    AcquireIds, AcquirePermits, Vec<PermitId>, |taken: Result<Taken, Error>| Ok(taken?.0);
    /// An acquisition that does not wait; await it. Gives `None` if there are too few permits, or
    /// others wait for them.
    TryAcquireIds, TryAcquirePermits, Option<Vec<PermitId>>, |taken: Result<Option<Taken>, Error>| Ok(taken?.map(|taken| taken.0));
    /// An acquisition with a bounded wait; await it. Gives `None` if there were too few permits at
    /// each look.
    TryAcquireIdsFor, TryAcquirePermitsFor, Option<Vec<PermitId>>, |taken: Result<Option<Taken>, Error>| Ok(taken?.map(|taken| taken.0));
}

macro_rules! starts {
    ($(($now:ident, $later:ident);)*) => {$(
        impl $now {
            pub(crate) fn new(pool: &Pool, permits: u32) -> Self {
                Self($later::new(pool, permits))
            }
        }
    )*};
}

starts! {
    (AcquireId, AcquirePermits);
    (TryAcquireId, TryAcquirePermits);
    (AcquireIds, AcquirePermits);
    (TryAcquireIds, TryAcquirePermits);
}

impl TryAcquireIdFor {
    pub(crate) fn new(pool: &Pool, wait: Duration) -> Self {
        Self(TryAcquirePermitsFor::new(pool, 1, wait))
    }
}

impl TryAcquireIdsFor {
    pub(crate) fn new(pool: &Pool, permits: u32, wait: Duration) -> Self {
        Self(TryAcquirePermitsFor::new(pool, permits, wait))
    }
}
