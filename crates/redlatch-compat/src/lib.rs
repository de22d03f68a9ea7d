#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod redisson;
mod scripts;
mod setnx;

use redlatch_core::{Token, guards};

pub use redisson::{Redisson, RedissonInfo};
pub use setnx::{SetNx, SetNxInfo};

guards! {
    /// A hold of a [`SetNx`](crate::SetNx) or a [`Redisson`](crate::Redisson) lock. The hold has no
    /// fencing token, so a resource cannot refuse a holder that lost its lease unnoticed.
    ///
    /// As with every guard of this family, the client renews the lease, and the guard reports a
    /// loss before the lease ends on the server. Dropping the guard releases in the background.
    /// [`release`](Self::release) also returns the outcome. Only [`extend`](Self::extend) and
    /// [`release`](Self::release) send requests.
    ///
    /// If the other library ends the hold by force, this guard is lost at its next renewal, after
    /// up to a third of its lease. A guard with a fixed lease is lost at its deadline.
    ///
    /// # Outcome of a release
    ///
    /// A hold that has expired, or that another program has removed, is `Forgotten`, or
    /// `Unconfirmed` if the release had to be repeated: neither layout shows whether another client
    /// has held the name since. The outcome is never `Expired`. `TakenOver` means that the name has
    /// another holder now, and `Revoked` that a client of this family has ended the hold by force.
    UnfencedGuard;
}

impl UnfencedGuard {
    /// Returns `None`: nothing in the layout of the other library rises from hold to hold.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// let guard = SetNx::redis_py(&client, "report").lock().await?;
    /// assert!(guard.token().is_none());
    /// guard.check()?; // the guard reports a loss all the same
    /// # Ok(())
    /// # }
    /// ```
    pub const fn token(&self) -> Option<Token> {
        None
    }
}
