//! The outcome of a fenced write.

use redlatch_core::Token;

/// The outcome of a fenced write. A refusal is a value and not an error: it says that a later
/// holder has written, so the caller's hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write with an outdated token is refused, and the caller has to stop then"]
pub enum Fenced<T = ()> {
    /// The token was accepted, and the write was made.
    Written(T),
    /// A higher token has written before. Nothing was changed.
    Refused {
        /// The highest token that has written.
        mark: Token,
    },
}

impl<T> Fenced<T> {
    /// Tells whether the write was made.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("stock:42").lock().await?;
    /// let stock = client.fence("stock:42:count");
    /// if !stock.set(guard.token(), "9").await?.is_written() {
    ///     return Ok(()); // a later holder has written: stop
    /// }
    /// # assert_eq!(stock.mark().await?, Some(guard.token()));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }

    /// Returns the result of the write; `None` if it was refused.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let stock = FenceGate::new(10);
    /// let (early, late) = (Token::from_u64(1), Token::from_u64(2));
    /// assert_eq!(stock.write(late, |left| *left).written(), Some(10));
    /// assert_eq!(stock.write(early, |left| *left).written(), None); // refused
    /// ```
    pub fn written(self) -> Option<T> {
        match self {
            Self::Written(result) => Some(result),
            Self::Refused { .. } => None,
        }
    }
}
