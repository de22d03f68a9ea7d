//! The removal of a record, so that a name may become an object of another kind.

use redlatch_core::{
    Error, ErrorKind,
    family::{About, Forgotten, Name, forget},
};

use crate::Client;

impl Client {
    /// Removes the record of `name` from the server if the record is not in use. The name may then
    /// become an object of another kind. The method is for administrators and deployments. Programs
    /// do not need it between two holds.
    ///
    /// A freed lock leaves a record with its last token and its kind for the client's
    /// [`token_retention`](crate::common::ClientBuilder::token_retention), 10 minutes by default. A
    /// semaphore has a record until it is deleted. As long as the record is there, an object of
    /// another kind fails with `WrongKind`.
    ///
    /// The server checks and removes in one step. A record that is in use stays, and the result
    /// says why. The numbers of permits of a semaphore go with its record; its participants get
    /// `NotSet` until it is set again.
    ///
    /// For 5 s after the last use, late copies of requests may come. The call waits for the end of
    /// that time.
    ///
    /// Tokens still rise: a token of the new object is the server's time, and the record of a token
    /// that is not below that time stays. The next holder does not learn that the last one has
    /// never released.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use redlatch::Forgotten;
    ///
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// let token = guard.token();
    /// assert_eq!(client.forget("orders:42").await?, Forgotten::Held);
    /// guard.release().await?;
    ///
    /// assert!(client.fair_lock("orders:42").lock().await.is_err()); // it is still a lock
    /// assert_eq!(client.forget("orders:42").await?, Forgotten::Done);
    /// assert!(client.fair_lock("orders:42").lock().await?.token() > token);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidName`. `WrongKind` if the record is that of another program, or of a kind that this
    /// version does not know. Otherwise as [`Objects::next`](crate::Objects::next).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the record is removed or not, within 5 s.
    pub async fn forget(&self, name: &str) -> Result<Forgotten, Error> {
        let name = Name::parse(name)
            .map_err(|error| Error::new(ErrorKind::InvalidName, error.to_string()))?;
        forget(self, &name).await.about("object", name.as_str())
    }
}
