//! The guard of a plain lock.

use std::{fmt, future::Future, time::Duration};

use redlatch_core::{Error, Held, HoldState, LossCause, Moment, Owner, Released, Token};

/// A hold of a [`Lock`](crate::Lock). Dropping it releases in the background; [`release`](Self::release) also tells what became of it.
///
/// It owns what it needs, is `Send`, and may be dropped anywhere, also during a panic and outside of a runtime. A drop only queues the
/// release: if the process exits right after, it may never be sent, and the name stays taken until the lease ends. Where that matters, await
/// [`release`](Self::release), or end the program with [`Client::close`](redlatch_core::Client::close).
///
/// Its state is what this process knows: nothing but [`extend`](Self::extend) and [`release`](Self::release) talks to the server.
///
/// # Examples
///
/// ```no_run
/// # async fn load() -> u32 { 0 }
/// # async fn store(_: u32, _: redlatch_core::Token) {}
/// # async fn example(lock: redlatch_reentrant::Lock) -> Result<(), redlatch_core::Error> {
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
pub struct LockGuard(Held);

impl LockGuard {
    pub(crate) const fn new(held: Held) -> Self {
        Self(held)
    }

    /// Returns the fencing token of this hold: greater than that of every hold of this name before it, and the same for all its re-entries.
    ///
    /// Hand it to what the lock protects, and have that refuse a token lower than the highest it has seen: then no holder that lost
    /// its lease without noticing can do harm.
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.name().as_str()
    }

    /// Returns who holds; pass it to an acquisition to re-enter.
    pub fn owner(&self) -> &Owner {
        self.0.owner()
    }

    /// Returns how many guards of this hold there are. Asks nobody.
    pub fn hold_count(&self) -> usize {
        self.0.hold_count()
    }

    /// Tells whether the hold before ended without a release, by its lease or by force, and has not been released since: what its holder was
    /// at work on may be half done.
    ///
    /// Known to the guard whose acquisition began the hold, not to its re-entries. A `false` is no proof: the record of the hold before goes with
    /// its token's retention, and with an answer that was lost and asked for again.
    pub const fn is_after_abandonment(&self) -> bool {
        self.0.is_after_abandonment()
    }

    /// Returns the state at this instant. Asks nobody: compares this client's clock.
    pub fn state(&self) -> HoldState {
        self.0.state()
    }

    /// Fails with the cause if the hold is lost; call it before each step that relies on it. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost).
    pub fn check(&self) -> Result<(), Error> {
        self.0.check()
    }

    /// Returns how long the hold may be relied on if nothing renews it; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Returns the deadline by this client's clock, [`Client::now`](redlatch_core::Client::now), if nothing renews the hold. Only looks: a
    /// hold may be lost before, which [`check`](Self::check) tells.
    pub fn valid_until(&self) -> Moment {
        self.0.valid_until()
    }

    /// Resolves when the hold is lost, without any reply having to arrive: its timer is set to 2 ms before the deadline.
    ///
    /// Never resolves once the last guard of the hold has gone, since then nothing can be lost any more: race it against the work. The future
    /// owns what it needs and does not keep the hold alive.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.0.lost()
    }

    /// Runs `future` for as long as the hold lasts. When the hold is lost, `future` is dropped at its next await. Each poll compares the clock
    /// first, so that nothing goes on after the process was suspended.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost) with the cause.
    ///
    /// # Cancel safety
    ///
    /// As `future` itself; the guard stays as it is.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        self.0.run(future).await
    }

    /// Makes the lease last at least `span` from now, once, for all guards of the hold: 50 ms to 365 days. Never shortens. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidLease`; `Lost` if the hold is over; `Permission`, `Closed`; `OutcomeUnknown` or `Unavailable` if the server did not answer
    /// before the deadline, or for as long as the client is patient. The guard then keeps the deadline it had; the lease on the server is what
    /// it was or longer.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the guard keeps the deadline it had; the lease on the server is what it was or longer.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        self.0.extend(span).await
    }

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

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish()
    }
}
