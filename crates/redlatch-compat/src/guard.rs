//! The guard of a hold without a token.

use std::{fmt, future::Future, time::Duration};

use redlatch_core::{Client, Error, Held, HoldState, LossCause, Moment, Owner, Released, Token};

/// A hold of a [`SetNx`](crate::SetNx) or a [`Redisson`](crate::Redisson) lock. It has no fencing
/// token, so a resource cannot refuse a holder that lost its lease without noticing.
///
/// It is renewed, and tells of a loss before the lease ends on the server, as every guard of this
/// family. Dropping it releases in the background; [`release`](Self::release) also returns the
/// outcome. Its state is the knowledge of this process: only [`extend`](Self::extend) and
/// [`release`](Self::release) send requests.
///
/// If the other library ends the hold by force, this guard is told at its next renewal, after up to
/// a third of its lease. A guard with a fixed lease is told at its deadline.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct UnfencedGuard(Held);

impl UnfencedGuard {
    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the owner. Pass it to an acquisition of [`Redisson`](crate::Redisson) to re-enter.
    pub fn owner(&self) -> &Owner {
        self.0.owner()
    }

    /// Returns the client that acquired the hold.
    pub fn client(&self) -> &Client {
        self.0.client()
    }

    /// Returns `None`: nothing in the layout of the other library rises from hold to hold.
    pub const fn token(&self) -> Option<Token> {
        None
    }

    /// Returns the number of guards of this hold in this process. Sends no request.
    pub fn hold_count(&self) -> usize {
        self.0.hold_count()
    }

    /// Returns how many replicas had confirmed the grant; 0 unless the acquisition required some.
    pub const fn acknowledged(&self) -> u32 {
        self.0.acknowledged()
    }

    /// Returns the state at this instant. Sends no request.
    pub fn state(&self) -> HoldState {
        self.0.state()
    }

    /// Fails with the cause if the hold is lost. Sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost).
    pub fn check(&self) -> Result<(), Error> {
        self.0.check()
    }

    /// Returns the deadline by the client's clock, if nothing renews the hold; see
    /// [`Held::valid_until`].
    pub fn valid_until(&self) -> Moment {
        self.0.valid_until()
    }

    /// Returns how long the hold can be relied on if nothing renews it; zero after a loss.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Resolves when the hold is lost, 2 ms before its deadline at the latest. No reply has to
    /// arrive for that. See [`Held::lost`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.0.lost()
    }

    /// Resolves `before` the deadline, unless the hold is renewed in time; see [`Held::ending`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Call it again.
    pub fn ending(&self, before: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.0.ending(before)
    }

    /// Runs `future` while the hold lasts, and drops it at its next await when the hold is lost.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost) with the cause.
    ///
    /// # Cancel safety
    ///
    /// The same as that of `future`. The guard is unchanged.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        self.0.run(future).await
    }

    /// Extends the lease, once, to at least `span` from now: 50 ms to 365 days. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of [`Held::extend`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the guard keeps its previous deadline.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        self.0.extend(span).await
    }

    /// Releases this guard and returns the outcome. Costs one command.
    ///
    /// A hold that has expired, or that another program has removed, is `Forgotten`, or
    /// `Unconfirmed` if the release had to be repeated: neither layout tells whether somebody else
    /// has held the name since. It is never `Expired`. `TakenOver` says that the name has another
    /// holder now, and `Revoked` that a client of this family has ended the hold by force.
    ///
    /// # Errors
    ///
    /// Those of [`Held::release`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the release to the background.
    pub async fn release(self) -> Result<Released, Error> {
        self.0.release().await
    }
}

impl From<Held> for UnfencedGuard {
    fn from(held: Held) -> Self {
        Self(held)
    }
}

impl fmt::Debug for UnfencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfencedGuard")
            .field("kind", &self.0.kind())
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("state", &self.state())
            .finish()
    }
}
