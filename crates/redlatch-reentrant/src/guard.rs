//! The guard of a plain lock.

redlatch_core::guards! {
    /// A hold of a [`Lock`](crate::Lock). Dropping the guard releases in the background.
    /// [`release`](Self::release) also returns the outcome.
    ///
    /// The guard is `'static` and `Send`. You may drop the guard anywhere, even during a panic or
    /// outside of a runtime. A drop only queues the release. If the process exits right afterwards,
    /// the release may never be sent, and the name stays held until the lease ends. Where that
    /// matters, await [`release`](Self::release), or end the program with
    /// [`Client::close`](redlatch_core::Client::close).
    ///
    /// The guard derefs to [`Held`]. Only [`extend`](Held::extend) and [`release`](Self::release)
    /// send requests.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # async fn load() -> u32 { 41 }
    /// let guard = client.lock("counter").lock().await?;
    /// // `run` drops the future at its next await if the lock is lost.
    /// let value = guard.run(load()).await?;
    /// // Check before a step that must not happen without the lock.
    /// guard.check()?;
    /// println!("SET value = {value}, token = {0} WHERE token <= {0}", guard.token());
    /// assert!(guard.release().await?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A guard that is lost resolves [`lost`](Held::lost), and `run` drops its work:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let server = redlatch::embedded::Server::start();
    /// use redlatch::LossCause;
    ///
    /// # let client = server.client().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// server.lose("orders:42"); // as a restart without persistence does
    /// let lost = guard.run(std::future::pending::<()>()).await.unwrap_err();
    /// assert_eq!(lost.loss(), Some(LossCause::Forgotten));
    /// assert_eq!(guard.lost().await, LossCause::Forgotten);
    /// assert!(guard.check().is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A lease of fixed length ends unless you extend the lease:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("upload").lock().lease(Duration::from_secs(10)).await?;
    /// guard.ending(Duration::from_secs(3)).await; // resolves 3 s before the deadline
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "mutexguard")]
    LockGuard;
}
