//! The builders of an acquisition of permits. Await a builder to run it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use redlatch_core::{Acquire, Error, Held, TryAcquire, TryAcquireFor, WaitStrategy};

use crate::Pool;

/// A guard of permits whose lease is renewed while it lives.
pub trait Renewed {}

macro_rules! builders {
    ($($(#[$about:meta])* $builder:ident, $inner:ident, $output:ty;)*) => {$(
        $(#[$about])*
        #[must_use = "nothing is acquired until this is awaited"]
        pub struct $builder<G>($inner<G>);

        impl<G> $builder<G> {
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
            /// let exports = client.semaphore("exports").permits_if_unset(2);
            /// // Ask every 500 ms, without a subscription.
            /// let poll = WaitStrategy::Poll(Backoff::constant(Duration::from_millis(500)));
            /// let permit = exports.acquire().strategy(poll).await?;
            /// # drop(permit);
            /// # Ok(())
            /// # }
            /// ```
            pub fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0 = self.0.strategy(strategy);
                self
            }

            /// Attaches a note to the hold, for example its purpose: 1 to 256 bytes. See
            /// [`Acquire::note`].
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// let exports = client.semaphore("exports").permits_if_unset(2);
            /// let permit = exports.acquire().note("tenant 7").await?;
            /// assert_eq!(exports.holders().await?[0].note.as_deref(), Some("tenant 7"));
            /// # drop(permit);
            /// # Ok(())
            /// # }
            /// ```
            pub fn note(mut self, note: &str) -> Self {
                self.0 = self.0.note(note);
                self
            }

            /// Holds the permits for `lease` from the grant: 50 ms to 365 days. The lease is not
            /// renewed; an extension moves its end.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let exports = client.semaphore("exports").permits_if_unset(2);
            /// let permit = exports.acquire().lease(Duration::from_secs(60)).await?;
            /// tokio::time::sleep(Duration::from_secs(61)).await;
            /// assert!(permit.check().is_err(), "not renewed");
            /// # Ok(())
            /// # }
            /// ```
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0 = self.0.lease(lease);
                self
            }
        }

        impl<G: Renewed> $builder<G> {
            /// Makes the hold begin with its whole lease. Default: false. See
            /// [`Acquire::whole_lease`].
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let exports = client.semaphore("exports").permits_if_unset(1);
            /// let first = exports.acquire().lease(Duration::from_secs(1)).await?;
            /// let second = exports.acquire().whole_lease().await?; // waits for a second
            /// assert!(second.remaining() > Duration::from_secs(20)); // and not 5 s
            /// # drop(first);
            /// # Ok(())
            /// # }
            /// ```
            pub fn whole_lease(mut self) -> Self {
                self.0 = self.0.whole_lease();
                self
            }

            /// Holds the permits with a lease that is renewed after each third of it while the
            /// guard lives: 1 s to 365 days. This is the default, with the client's default lease
            /// of 30 s.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let exports = client.semaphore("exports").permits_if_unset(2);
            /// // If this process dies, the permit is back after 6 s.
            /// let permit = exports.acquire().renewed_lease(Duration::from_secs(6)).await?;
            /// tokio::time::sleep(Duration::from_secs(60)).await;
            /// assert!(permit.check().is_ok(), "renewed every 2 s");
            /// # Ok(())
            /// # }
            /// ```
            pub fn renewed_lease(mut self, lease: Duration) -> Self {
                self.0 = self.0.renewed_lease(lease);
                self
            }

            /// Stops the renewal after `max`, even if the guard lives, so that forgotten permits
            /// come back. Default: never.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let exports = client.semaphore("exports").permits_if_unset(2);
            /// let permit = exports.acquire().max_hold(Duration::from_secs(600)).await?;
            /// tokio::time::sleep(Duration::from_secs(660)).await; // an export that hangs
            /// assert!(permit.check().is_err());
            /// assert_eq!(exports.available_permits().await?, 2);
            /// # Ok(())
            /// # }
            /// ```
            pub fn max_hold(mut self, max: Duration) -> Self {
                self.0 = self.0.max_hold(max);
                self
            }
        }

        impl<G> Clone for $builder<G> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        }

        impl<G> fmt::Debug for $builder<G> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($builder)).field(&self.0).finish()
            }
        }

        impl<G: From<Held> + 'static> IntoFuture for $builder<G> {
            type Output = Result<$output, Error>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                self.0.into_future()
            }
        }
    )*};
}

builders! {
    /// An acquisition that waits. Await the builder.
    AcquirePermits, Acquire, G;
    /// An acquisition that does not wait. Await the builder. Returns `None` if too few permits are
    /// available, or if earlier waiters need them.
    TryAcquirePermits, TryAcquire, Option<G>;
    /// An acquisition with a bounded wait. Await the builder. Returns `None` if too few permits
    /// were available at each check.
    TryAcquirePermitsFor, TryAcquireFor, Option<G>;
}

impl<G: From<Held>> AcquirePermits<G> {
    /// Creates a builder, for the crates of this family.
    #[doc(hidden)]
    pub fn new(pool: &Pool, permits: u32) -> Self {
        Self(Acquire::new(pool.client(), pool.primitive(permits)).fresh_owner())
    }
}

impl<G: From<Held>> TryAcquirePermits<G> {
    /// Creates a builder, for the crates of this family.
    #[doc(hidden)]
    pub fn new(pool: &Pool, permits: u32) -> Self {
        Self(TryAcquire::new(pool.client(), pool.primitive(permits)).fresh_owner())
    }
}

impl<G: From<Held>> TryAcquirePermitsFor<G> {
    /// Creates a builder, for the crates of this family.
    #[doc(hidden)]
    pub fn new(pool: &Pool, permits: u32, wait: Duration) -> Self {
        let primitive = pool.primitive(permits);
        Self(TryAcquireFor::new(pool.client(), primitive, wait).fresh_owner())
    }
}
