//! The methods that the handles of both semaphores have alike, as macros. A handle is a tuple
//! struct of one [`Pool`](crate::Pool).

/// Writes the methods that make a handle, into its `impl`.
#[doc(hidden)]
#[macro_export]
macro_rules! pool_handle {
    ($flavour:expr) => {
        /// Creates a handle of the semaphore called `name`: 1 to 512 bytes of UTF-8.
        ///
        /// Does no I/O. The first call that would send a request reports an invalid name as
        /// `InvalidName`. A well-formed `{tag}` in the name is kept, so that names with that tag
        /// share a hash slot.
        pub fn new(client: &redlatch_core::Client, name: impl AsRef<str>) -> Self {
            Self($crate::Pool::new(client, $flavour, name.as_ref()))
        }

        /// Labels this handle's metrics and events with `class`, for example what the semaphore is
        /// for. Names are never used as labels.
        #[must_use]
        pub fn class(self, class: &str) -> Self {
            Self(self.0.class(class))
        }

        /// Sets the default number of permits, which the first acquisition over such a handle sets
        /// if there is none. Costs nothing. A number on the server takes precedence.
        #[must_use]
        pub fn permits_if_unset(self, permits: u32) -> Self {
            Self(self.0.size(permits))
        }
    };
}

/// Writes the methods that change and read the number of permits, into the `impl` of `$handle`.
/// `$forgotten` says what a deletion means for the permits that are out.
#[doc(hidden)]
#[macro_export]
macro_rules! pool_numbers {
    ($(#[$forgotten:meta])* $handle:ident) => {
        /// Sets the number of permits, whatever it was before. Await the returned builder. The
        /// change is made exactly once, however often the request is sent. Costs one command.
        ///
        #[doc = concat!(
            "For the effect on given-out permits and on waiters, see [`",
            stringify!($handle),
            "`]."
        )]
        ///
        /// # Errors
        ///
        /// `InvalidName`, `InvalidOption`, `WrongKind`, `ServerFull`, `NotEnoughReplicas`,
        /// `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` if it may be set,
        /// when the server did not answer within the client's `patience`, 20 s at most.
        ///
        /// # Cancel safety
        ///
        /// After a drop, the number may be set or not. An unsent request is not sent. A sent one
        /// acts within 5 s or never.
        pub fn set_permits(&self, permits: u32) -> $crate::SetPermits {
            $crate::SetPermits::new(&self.0, permits)
        }

        /// Sets the number of permits if it is not set. Returns `false` if it was set. Otherwise as
        /// [`set_permits`](Self::set_permits).
        pub fn try_set_permits(&self, permits: u32) -> $crate::TrySetPermits {
            $crate::TrySetPermits::new(&self.0, permits)
        }

        /// Adds `change` permits, or removes them if it is negative, exactly once. Returns the new
        /// number. Costs one command.
        ///
        /// # Errors
        ///
        /// `NotSet` if the number is not set; `OutOfRange` if it would be negative or more than
        /// 4294967295. Otherwise as [`set_permits`](Self::set_permits); after `OutcomeUnknown`,
        /// adding again may add twice.
        ///
        /// # Cancel safety
        ///
        /// As [`set_permits`](Self::set_permits).
        pub async fn add_permits(&self, change: i64) -> Result<u32, redlatch_core::Error> {
            self.0.add(change).await
        }

        /// Removes all permits that are available at this moment, exactly once, and returns their
        /// number. The new total is the number given out. Costs one command, and more only after
        /// many leases have ended.
        ///
        /// # Errors
        ///
        /// As [`add_permits`](Self::add_permits).
        ///
        /// # Cancel safety
        ///
        /// As [`set_permits`](Self::set_permits).
        pub async fn drain_permits(&self) -> Result<u32, redlatch_core::Error> {
            self.0.drain().await
        }

        /// Deletes the semaphore. Returns `false` if the number was not set. Waiters get `NotSet`
        /// at once. Costs one command.
        ///
        $(#[$forgotten])*
        ///
        /// # Errors
        ///
        /// As [`set_permits`](Self::set_permits).
        ///
        /// # Cancel safety
        ///
        /// As [`set_permits`](Self::set_permits).
        pub async fn delete(&self) -> Result<bool, redlatch_core::Error> {
            self.0.delete().await
        }

        /// Returns the number of permits that are available at this moment, waiters disregarded. As
        /// [`totals`](Self::totals).
        ///
        /// # Errors
        ///
        /// As [`totals`](Self::totals).
        ///
        /// # Cancel safety
        ///
        /// As [`totals`](Self::totals).
        pub async fn available_permits(&self) -> Result<u32, redlatch_core::Error> {
            Ok(self.totals().await?.available)
        }

        /// Returns the total number of permits, including those given out. As
        /// [`totals`](Self::totals).
        ///
        /// # Errors
        ///
        /// As [`totals`](Self::totals).
        ///
        /// # Cancel safety
        ///
        /// As [`totals`](Self::totals).
        pub async fn permits(&self) -> Result<u32, redlatch_core::Error> {
            Ok(self.totals().await?.permits)
        }

        /// Returns the total number of permits, the number given out, and the number of waiters.
        /// The result may be outdated on arrival.
        ///
        /// Costs one command, and one more for every 64 holders whose lease has ended since the
        /// last look of any client.
        ///
        /// # Errors
        ///
        /// `NotSet` if the number is not set and the handle has no default; `InvalidName`,
        /// `WrongKind`, `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the
        /// server did not answer within the client's `patience`.
        ///
        /// # Cancel safety
        ///
        /// It only reads, and removes expired holds.
        pub async fn totals(&self) -> Result<$crate::Totals, redlatch_core::Error> {
            self.0.totals().await
        }
    };
}
