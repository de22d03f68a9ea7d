//! The guard of a fair lock.

redlatch_core::guards! {
    /// A hold of a [`FairLock`](crate::FairLock). Dropping it releases in the background;
    /// [`release`](Self::release) also returns the outcome.
    ///
    /// The guard is `'static` and `Send`, and may be dropped anywhere, even during a panic or outside
    /// of a runtime. A drop only queues the release. If the process exits right afterwards, the release
    /// may never be sent, and the name stays held until the lease ends. Where that matters, await
    /// [`release`](Self::release), or end the program with
    /// [`Client::close`](redlatch_core::Client::close).
    ///
    /// Its state is the knowledge of this process. Only [`extend`](Held::extend) and
    /// [`release`](Self::release) send requests.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn load() -> u32 { 0 }
    /// # async fn store(_: u32, _: redlatch::Token) {}
    /// # async fn example(lock: redlatch::FairLock) -> Result<(), redlatch::Error> {
    /// let guard = lock.lock().await?;
    /// // `run` drops the future at its next await if the lock is lost.
    /// let value = guard.run(load()).await?;
    /// // Check before a step that must not happen without the lock.
    /// guard.check()?;
    /// store(value, guard.token()).await;
    /// println!("{}", guard.release().await?);
    /// # Ok(())
    /// # }
    /// ```
    FairLockGuard;
}
