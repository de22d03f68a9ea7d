//! The guard of a multi-lock.

use std::{fmt, future::Future, time::Duration};

use redlatch_core::{Error, Held, HoldState, LossCause, Released, Token};

use crate::bundle::Bundle;

/// All members of a [`MultiLock`](crate::MultiLock), held as one. The loss of any member is the
/// loss of the whole. Dropping it releases all of them in the background;
/// [`release`](Self::release) also returns the outcome of each.
///
/// After a loss, the remaining members are still held and renewed until this guard is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct MultiGuard(Bundle);

impl MultiGuard {
    pub(crate) fn new(holds: Vec<Held>) -> Self {
        let needed = holds.len();
        Self(Bundle::new(holds, needed))
    }

    /// Returns the members' guards, in the order of acquisition: by kind, in a cluster by hash
    /// slot, then by name.
    pub fn members(&self) -> &[Held] {
        self.0.holds()
    }

    /// Splits the guard: each member is held by itself from then on.
    pub fn into_members(self) -> Vec<Held> {
        self.0.into_holds()
    }

    /// Returns the fencing token of the member called `name`; of the first one, if members of
    /// different servers share the name. A read side has the token of the last write. A member in
    /// the layout of another library has none; if a lock of this library has the same name, this is
    /// the token of that one.
    pub fn token(&self, name: &str) -> Option<Token> {
        let members = self.members().iter();
        let mut tokens = members
            .filter(|member| member.name() == name)
            .map(Held::granted_token);
        tokens.find(|&token| token != Token::NONE)
    }

    /// Returns the state at this instant: lost if any member is. Sends no request.
    pub fn state(&self) -> HoldState {
        self.0.state()
    }

    /// Fails with the cause if any member is lost. Sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost).
    pub fn check(&self) -> Result<(), Error> {
        self.0.check()
    }

    /// Returns how long all members may be relied on without a renewal; zero once one is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Resolves when any member is lost. It needs no reply. The future is `'static` and keeps
    /// nothing held.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses nothing; call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.0.lost()
    }

    /// Resolves `before` the deadline of any member, unless the member is renewed in time. Resolves
    /// at once when a member is lost and when a client closes. See [`Held::ending`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses nothing; call it again.
    pub fn ending(&self, before: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.0.ending(before)
    }

    /// Runs `future` while all members are held, and drops it at its next await when one is lost.
    /// Each poll checks the clock first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost) with the cause.
    ///
    /// # Cancel safety
    ///
    /// As `future` itself. The guard is unchanged.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        self.0.run(future).await
    }

    /// Extends each member's lease to at least `span` from now, once: 50 ms to 365 days. Costs one
    /// command per member, all at once.
    ///
    /// # Errors
    ///
    /// The first error of [`Held::extend`]; other members may have been extended.
    ///
    /// # Cancel safety
    ///
    /// After a drop, each member has its old or its new deadline.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        self.0.extend(span).await
    }

    /// Releases all members at once, and returns the outcome of each, by name in the order of
    /// [`members`](Self::members). Costs one command per member. An earlier loss of a member is an
    /// outcome and not an error.
    ///
    /// # Errors
    ///
    /// Those of [`Held::release`], if the release of any member was not answered; the text names
    /// these members. Their releases continue in the background, and the others are released.
    /// To know the outcome of each nevertheless, release those of
    /// [`into_members`](Self::into_members).
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the releases to the background.
    pub async fn release(self) -> Result<Vec<(String, Released)>, Error> {
        let names: Vec<_> = self
            .members()
            .iter()
            .map(|member| member.name().to_owned())
            .collect();
        let members = names.len();
        let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
        for (name, released) in names.into_iter().zip(self.0.release().await) {
            match released {
                Ok(released) => outcomes.push((name, released)),
                Err(error) => failed.push((name, error)),
            }
        }
        match failed.len() {
            0 => Ok(outcomes),
            // It names its object.
            1 => Err(failed.remove(0).1),
            _ => Err(unanswered(&failed, members)),
        }
    }
}

/// Returns the error of several members whose releases have failed.
fn unanswered(failed: &[(String, Error)], members: usize) -> Error {
    let names: Vec<_> = failed.iter().map(|(name, _)| format!("{name:?}")).collect();
    let first = &failed[0].1;
    let message = format!(
        "{} of {members} members ({}) may be held until their leases end: {first}",
        failed.len(),
        names.join(", ")
    );
    Error::with_reason(first.kind(), message, first.clone())
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard")
            .field("members", &self.members())
            .field("state", &self.state())
            .finish()
    }
}
