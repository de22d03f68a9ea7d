//! The methods that the handles of both semaphores have alike, as macros. A handle is a tuple
//! struct of one [`Pool`](crate::Pool).

/// Writes the methods that make a handle, into its `impl`.
#[doc(hidden)]
#[macro_export]
macro_rules! pool_handle {
    ($flavour:expr) => {
        /// Creates a handle of the semaphore called `name`, as the client's method does.
        pub fn new(client: &redlatch_core::Client, name: impl AsRef<str>) -> Self {
            Self($crate::Pool::new(client, $flavour, name.as_ref()))
        }

        /// Labels the metrics and events of this handle with `class`, for example with the purpose
        /// of the semaphore. Names are never used as labels.
        #[must_use]
        pub fn class(self, class: &str) -> Self {
            Self(self.0.class(class))
        }

        /// Sets the default number of permits. The first acquisition of such a handle sets that
        /// number if none is set. A number on the server takes precedence. Costs nothing.
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// let exports = client.semaphore("exports").permits_if_unset(2);
        /// let permit = exports.acquire().await?; // sets the number
        /// let other = client.semaphore("exports").permits_if_unset(5);
        /// assert_eq!(other.permits().await?, 2); // the number on the server
        /// # drop(permit);
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn permits_if_unset(self, permits: u32) -> Self {
            Self(self.0.size(permits))
        }

        /// Returns the name as it was given. Returns `None` if the name is invalid.
        pub fn name(&self) -> Option<&str> {
            self.0.name()
        }
    };
}

/// Writes the methods that change and read the number of permits, into the `impl` of `$handle`.
/// `$forgotten` says what a deletion means for the permits that are out.
#[doc(hidden)]
#[macro_export]
macro_rules! pool_numbers {
    ($(#[$forgotten:meta])* $handle:ident) => {
        /// Sets the number of permits, whatever the number was before. Await the returned builder.
        /// The change is made exactly once, however often the request is sent. Costs one command.
        ///
        #[doc = concat!(
            "For the effect on given-out permits and on waiters, see [`",
            stringify!($handle),
            "`]."
        )]
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// # let api = client.semaphore("partner-api");
        /// api.set_permits(8).await?;
        /// let held = api.acquire_many(6).await?;
        /// api.set_permits(4).await?; // those that are out stay valid
        /// assert_eq!(api.available_permits().await?, 0);
        /// assert_eq!(api.permits().await?, 4);
        /// # drop(held);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// `InvalidOption` for a TTL that is out of bounds. Otherwise those of [every
        /// call](redlatch_core::Error#errors-of-every-call). After `OutcomeUnknown`, the number may
        /// be set.
        ///
        /// # Cancel safety
        ///
        /// After a drop, the number may be set or not. An unsent request is not sent. A sent
        /// request acts within 5 s or never.
        pub fn set_permits(&self, permits: u32) -> $crate::SetPermits {
            $crate::SetPermits::new(&self.0, permits)
        }

        /// Sets the number of permits if no number is set. Returns `false` if a number was set.
        /// Otherwise as [`set_permits`](Self::set_permits).
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// # let api = client.semaphore("partner-api");
        /// assert!(api.try_set_permits(8).await?);
        /// assert!(!api.try_set_permits(9).await?, "set by another process");
        /// assert_eq!(api.permits().await?, 8);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "trySetPermits")]
        pub fn try_set_permits(&self, permits: u32) -> $crate::TrySetPermits {
            $crate::TrySetPermits::new(&self.0, permits)
        }

        /// Adds `change` permits, or removes permits if `change` is negative, exactly once. Returns
        /// the new number. Costs one command.
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// # let workers = client.semaphore("workers");
        /// workers.set_permits(4).await?;
        /// assert_eq!(workers.add_permits(2).await?, 6); // a machine was added
        /// assert_eq!(workers.add_permits(-3).await?, 3); // and another one removed
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// `NotSet` if the number is not set. `OutOfRange` if the new number would be negative or
        /// more than 4294967295. Otherwise as [`set_permits`](Self::set_permits). After
        /// `OutcomeUnknown`, a second call may add twice.
        ///
        /// # Cancel safety
        ///
        /// As [`set_permits`](Self::set_permits).
        #[doc(alias = "addPermits")]
        pub async fn add_permits(&self, change: i64) -> Result<u32, redlatch_core::Error> {
            self.0.changed($crate::Change::Add(change), None).await
        }

        /// Removes all permits that are available at this moment, exactly once, and returns their
        /// number. The new total is the number given out. Costs one command, and more only after
        /// many leases have ended.
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// # let workers = client.semaphore("workers");
        /// workers.set_permits(5).await?;
        /// assert_eq!(workers.drain_permits().await?, 5); // no new work from now on
        /// let error = workers.acquire().await.unwrap_err();
        /// assert_eq!(error.kind(), redlatch::ErrorKind::OutOfRange);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// As [`add_permits`](Self::add_permits).
        ///
        /// # Cancel safety
        ///
        /// As [`set_permits`](Self::set_permits).
        #[doc(alias = "drainPermits")]
        pub async fn drain_permits(&self) -> Result<u32, redlatch_core::Error> {
            self.0.changed($crate::Change::Drain, None).await
        }

        /// Deletes the semaphore. Returns `false` if the number was not set. Waiters get `NotSet`
        /// at once. Costs one command.
        ///
        $(#[$forgotten])*
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// # let exports = client.semaphore("exports");
        /// use redlatch::ErrorKind;
        ///
        /// exports.set_permits(2).await?;
        /// assert!(exports.delete().await?);
        /// let error = exports.acquire().await.unwrap_err();
        /// assert_eq!(error.kind(), ErrorKind::NotSet);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// As [`set_permits`](Self::set_permits).
        ///
        /// # Cancel safety
        ///
        /// As [`set_permits`](Self::set_permits).
        pub async fn delete(&self) -> Result<bool, redlatch_core::Error> {
            let deleted = self.0.change($crate::Change::Delete, None).await?;
            Ok(deleted != $crate::Made::Unset)
        }

        /// Returns the number of permits that are available at this moment, without regard to
        /// waiters. Otherwise as [`totals`](Self::totals).
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// let licences = client.semaphore("licences").permits_if_unset(5);
        /// let held = licences.acquire_many(2).await?;
        /// assert_eq!(licences.available_permits().await?, 3);
        /// # drop(held);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// As [`totals`](Self::totals).
        ///
        /// # Cancel safety
        ///
        /// As [`totals`](Self::totals).
        #[doc(alias = "availablePermits")]
        pub async fn available_permits(&self) -> Result<u32, redlatch_core::Error> {
            Ok(self.totals().await?.available)
        }

        /// Returns the total number of permits, with those given out. Otherwise as
        /// [`totals`](Self::totals).
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// let licences = client.semaphore("licences").permits_if_unset(5);
        /// let held = licences.acquire_many(2).await?;
        /// assert_eq!(licences.permits().await?, 5); // with those that are out
        /// # drop(held);
        /// # Ok(())
        /// # }
        /// ```
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
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), redlatch::Error> {
        /// # tokio::time::pause();
        /// # let client = redlatch::Client::embedded().await?;
        /// # let api = client.semaphore("partner-api").permits_if_unset(8);
        /// let totals = api.totals().await?;
        /// println!("{} of {} in use, {} wait", totals.acquired, totals.permits, totals.waiters);
        /// # assert_eq!(totals.available, 8);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// `NotSet` if the number is not set and the handle has no default. Otherwise those of
        /// [every call](redlatch_core::Error#errors-of-every-call).
        ///
        /// # Cancel safety
        ///
        /// The method only reads, and removes expired holds.
        pub async fn totals(&self) -> Result<$crate::Totals, redlatch_core::Error> {
            self.0.totals().await
        }
    };
}
