//! The builders that set how many permits there are.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use redlatch_core::{Error, ErrorKind, family::Lease};

use crate::Pool;

/// Sets how many permits there are; await it.
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct SetPermits(Setting);

/// Sets how many permits there are if nobody has; await it. `false` if somebody had.
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
            /// Starts the builder; for the crates of this family.
            #[doc(hidden)]
            pub fn new(pool: &Pool, permits: u32) -> Self {
                Self(Setting {
                    pool: pool.clone(),
                    permits,
                    ttl: None,
                    wrong: false,
                })
            }

            /// Lets the whole object end by itself after `ttl`: 1 s to 365 days, else `InvalidOption`. Default: as it is, and for ever if it is new.
            ///
            /// Counted from when this is set, and not prolonged by anything. It ends later if permits are out that were promised for longer; permits given out after that
            /// end with it, and their guards know. Then it is as if nobody had ever set it.
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.0.wrong = ttl < MIN_TTL || ttl > Lease::MAX;
                self.0.ttl = Some(ttl);
                self
            }

            /// Lets it last until it is deleted, whatever was set before.
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
    fn check(&self) -> Result<(), Error> {
        if self.wrong {
            let message = "the ttl is out of bounds; it is 1 s to 365 days";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(())
    }
}

impl IntoFuture for SetPermits {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.0.check()?;
            self.0.pool.set(self.0.permits, self.0.ttl).await
        })
    }
}

impl IntoFuture for TrySetPermits {
    /// Whether this set it.
    type Output = Result<bool, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.0.check()?;
            self.0.pool.try_set(self.0.permits, self.0.ttl).await
        })
    }
}

/// Shortest life of a pool that ends by itself.
const MIN_TTL: Duration = Duration::from_secs(1);
