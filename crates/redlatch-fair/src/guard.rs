//! The guard of a fair lock.

use std::{fmt, ops::Deref};

use redlatch_core::{Error, Held, Released};

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
#[must_use = "a guard that is dropped at once releases at once"]
pub struct FairLockGuard(Held);

impl FairLockGuard {
    /// Releases this guard and returns the outcome. Costs one command.
    ///
    /// An earlier loss of the hold is an outcome and not an error; see [`Released`].
    ///
    /// # Errors
    ///
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer within the client's
    /// `patience`; the release continues in the background. `Permission`. `Closed` when the client
    /// has been closed, which has already released the hold if the server was reachable.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the release to the background.
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
