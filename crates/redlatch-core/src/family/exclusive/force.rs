//! The end of a hold by force.

use super::Exclusive;
use crate::{
    Error, Token,
    family::{Force, Internals},
};

/// A forced release. Await the builder. See [`Exclusive::force_release`].
///
/// Returns `true` if the hold existed, and this request or an earlier copy of it ended the hold.
/// Costs two commands; one if you pass the token.
///
/// # Errors
///
/// Those of [every call](Error#errors-of-every-call).
///
/// # Cancel safety
///
/// If the future is dropped, the hold may or may not have been ended.
#[derive(Clone, Debug)]
#[must_use = "nothing is released until this is awaited"]
pub struct ForceRelease {
    handle: Exclusive,
    token: Option<Token>,
    how: Force,
}

impl ForceRelease {
    pub(super) fn new(handle: &Exclusive) -> Self {
        Self {
            handle: handle.clone(),
            token: None,
            how: Force::Now,
        }
    }

    /// Ends only the hold with this token. Default: the hold that exists when this is awaited.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// // Ends the hold that was looked at, and no later one.
    /// if let Some(hold) = lock.info().await?.filter(|hold| hold.age > Duration::from_secs(3600)) {
    ///     let ended = lock.force_release().token(hold.token).await?;
    ///     println!("{}", if ended { "ended" } else { "released in the meantime" });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Forbids the renewal of the hold instead of ending it. The name is free when the lease ends,
    /// and exclusion is kept.
    ///
    /// A renewed hold is lost within a round trip, or at its next renewal. A hold with a fixed
    /// lease ends at its deadline, as it would have anyway.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &redlatch::exclusive::Exclusive) -> Result<(), redlatch::Error> {
    /// if lock.force_release().after_lease().await? {
    ///     assert!(lock.is_locked().await?, "until the lease ends");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn after_lease(mut self) -> Self {
        self.how = Force::AfterLease;
        self
    }

    async fn run(self) -> Result<bool, Error> {
        let token = match self.token {
            Some(token) => token,
            None => match self.handle.info().await? {
                Some(info) => info.token,
                None => return Ok(false),
            },
        };
        let (client, kind) = (self.handle.client(), self.handle.kind());
        let key = self.handle.key()?;
        let call = kind.force(key, token, self.how, client);
        let ended = self.handle.ask(call, |reply| kind.forced(reply)).await?;
        if ended && self.how == Force::Now {
            client.revoked(key, token);
        }
        Ok(ended)
    }
}

awaited! {
    /// Whether the hold existed and was ended.
    ForceRelease => bool;
}
