//! The builders that set the number of permits.

use std::time::Duration;

use redlatch_core::{
    Error, awaited,
    family::{Lease, invalid},
};

use crate::Pool;

/// Sets the number of permits. Await the builder.
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct SetPermits(Setting);

/// Sets the number of permits if no number is set. Await the builder. Returns `false` if a number
/// was set.
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct TrySetPermits(Setting);

#[derive(Clone, Debug)]
struct Setting {
    pool: Pool,
    permits: u32,
    ttl: Option<Duration>,
    wrong: bool,
}

macro_rules! settings {
    ($($builder:ident),*) => {$(
        impl $builder {
            /// Creates the builder, for the crates of this family.
            #[doc(hidden)]
            pub fn new(pool: &Pool, permits: u32) -> Self {
                Self(Setting {
                    pool: pool.clone(),
                    permits,
                    ttl: None,
                    wrong: false,
                })
            }

            /// Lets the whole object expire after `ttl`: 1 s to 365 days, else `InvalidOption`.
            /// Default: unchanged, and for ever if the object is new.
            ///
            /// The time counts from this setting, and nothing prolongs it. The object expires later
            /// if given-out permits have longer leases. Permits given out afterwards end with it,
            /// and their guards know. Then the number of permits is not set.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            /// use redlatch::ErrorKind;
            ///
            /// let sale = client.semaphore("sale:2026-11-28");
            /// sale.set_permits(100).ttl(Duration::from_secs(3600)).await?;
            /// tokio::time::sleep(Duration::from_secs(3601)).await;
            /// assert_eq!(sale.permits().await.unwrap_err().kind(), ErrorKind::NotSet);
            /// # Ok(())
            /// # }
            /// ```
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.0.wrong = ttl < MIN_TTL || ttl > Lease::MAX;
                self.0.ttl = Some(ttl);
                self
            }

            /// Removes a TTL: the object lasts until it is deleted.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            ///
            /// let sale = client.semaphore("sale");
            /// sale.set_permits(100).ttl(Duration::from_secs(3600)).await?;
            /// sale.set_permits(100).for_ever().await?; // the sale goes on
            /// tokio::time::sleep(Duration::from_secs(3601)).await;
            /// assert_eq!(sale.permits().await?, 100);
            /// # Ok(())
            /// # }
            /// ```
            pub const fn for_ever(mut self) -> Self {
                self.0.wrong = false;
                self.0.ttl = Some(Duration::ZERO);
                self
            }
        }
    )*};
}

settings!(SetPermits, TrySetPermits);

impl Setting {
    fn checked_ttl(&self) -> Result<Option<Duration>, Error> {
        match self.wrong {
            true => Err(invalid("the ttl is out of bounds; it is 1 s to 365 days")),
            false => Ok(self.ttl),
        }
    }
}

impl SetPermits {
    async fn run(self) -> Result<(), Error> {
        let ttl = self.0.checked_ttl()?;
        self.0.pool.set(self.0.permits, ttl).await
    }
}

impl TrySetPermits {
    async fn run(self) -> Result<bool, Error> {
        let ttl = self.0.checked_ttl()?;
        self.0.pool.try_set(self.0.permits, ttl).await
    }
}

awaited! {
    SetPermits => ();
    /// True if this call set it.
    TrySetPermits => bool;
}

/// Shortest TTL of a pool.
const MIN_TTL: Duration = Duration::from_secs(1);
