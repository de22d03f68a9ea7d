//! The guard of a fair lock.

redlatch_core::guards! {
    /// A hold of a [`FairLock`](crate::FairLock). Dropping the guard releases in the background.
    /// [`release`](Self::release) also returns the outcome.
    ///
    /// Drop, loss and exit are as with [`LockGuard`](../redlatch/struct.LockGuard.html). The guard
    /// derefs to [`Held`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # async fn load() -> u32 { 41 }
    /// let guard = client.fair_lock("counter").lock().await?;
    /// let value = guard.run(load()).await?;
    /// guard.check()?;
    /// println!("SET counter = {value} with token {}", guard.token());
    /// assert!(guard.release().await?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    FairLockGuard;
}
