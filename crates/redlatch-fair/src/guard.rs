//! The guard of a fair lock.

use std::{fmt, ops::Deref};

use redlatch_core::{Error, Held, Released};

/// A hold of a [`FairLock`](crate::FairLock). Dropping it releases in the background; [`release`](Self::release) also tells what became of it.
///
/// It owns what it needs, is `Send`, and may be dropped anywhere, also during a panic and outside of a runtime. A drop only queues the
/// release: if the process exits right after, it may never be sent, and the name stays taken until the lease ends. Where that matters, await
/// [`release`](Self::release), or end the program with [`Client::close`](redlatch_core::Client::close).
///
/// Its state is what this process knows: nothing but [`extend`](Held::extend) and [`release`](Self::release) talks to the server.
///
/// # Examples
///
/// ```no_run
/// # async fn load() -> u32 { 0 }
/// # async fn store(_: u32, _: redlatch_core::Token) {}
/// # async fn example(lock: redlatch_fair::FairLock) -> Result<(), redlatch_core::Error> {
/// let guard = lock.lock().await?;
/// // Dropped at its next await, should the lock be lost.
/// let value = guard.run(load()).await?;
/// // Before a step that must not happen without the lock.
/// guard.check()?;
/// store(value, guard.token()).await;
/// println!("{}", guard.release().await?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a guard that is dropped at once releases at once"]
pub struct FairLockGuard(Held);

impl FairLockGuard {
    /// Releases this guard and says what became of it. Costs one command.
    ///
    /// A hold that was lost before is an answer and not an error; see [`Released`].
    ///
    /// # Errors
    ///
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer for as long as the client is patient; the release goes on in the
    /// background. `Permission`, and `Closed` when the client has been closed, which released it already if the server could be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the release goes on in the background.
    pub async fn release(self) -> Result<Released, Error> {
        self.0.release().await
    }
}

impl From<Held> for FairLockGuard {
    fn from(held: Held) -> Self {
        Self(held)
    }
}

impl Deref for FairLockGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl fmt::Debug for FairLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairLockGuard")
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish()
    }
}
