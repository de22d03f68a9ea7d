//! The guard behind every guard of the family.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::{Hold, Parting, Released, attempt::Delivered, release};
use crate::{
    Client, Error, LossCause, Owner,
    primitive::{Grant, Renewed, Token},
    protocol::{
        hold::HoldState,
        lease::{Lease, LeaseError},
        name::Name,
        time::Moment,
    },
    rules::Rule,
};

/// A delivered grant. The guards of the primitives wrap it; for the crates of this family.
///
/// Dropping it releases in the background, in any context, also during a panic and outside of a runtime.
#[must_use = "a guard that is dropped releases at once"]
pub struct Held {
    hold: Arc<Hold>,
    delivered: Delivered,
    grant: Grant,
    released: bool,
}

impl Held {
    pub(super) const fn new(hold: Arc<Hold>, delivered: Delivered, grant: Grant) -> Self {
        Self {
            hold,
            delivered,
            grant,
            released: false,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &Name {
        self.hold.primitive().name()
    }

    /// Returns who holds.
    pub fn owner(&self) -> &Owner {
        self.hold.owner()
    }

    /// Returns the client that holds.
    pub fn client(&self) -> &Client {
        self.hold.client()
    }

    /// Returns the fencing token.
    pub fn token(&self) -> Token {
        self.hold.token()
    }

    /// Returns the number of guards of this hold.
    pub fn hold_count(&self) -> usize {
        self.hold.guards()
    }

    /// Tells whether the holder before never released.
    pub const fn is_after_abandonment(&self) -> bool {
        self.grant.abandoned
    }

    /// Returns the state at this instant.
    pub fn state(&self) -> HoldState {
        self.hold.state(self.hold.client().now())
    }

    /// Fails if the hold is lost. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the cause.
    pub fn check(&self) -> Result<(), Error> {
        match self.state() {
            HoldState::Lost(cause) => Err(Error::lost(cause)),
            HoldState::Held | HoldState::Unknown => Ok(()),
        }
    }

    /// Returns the deadline by this client's clock; see [`Client::now`].
    pub fn valid_until(&self) -> Moment {
        self.hold.valid_until()
    }

    /// Returns how long the hold may still be relied on if nothing renews it; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        let now = self.hold.client().now();
        match self.hold.state(now) {
            HoldState::Lost(_) => Duration::ZERO,
            HoldState::Held | HoldState::Unknown => self.hold.valid_until() - now,
        }
    }

    /// Resolves when the hold is lost; never once its last guard has gone.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.hold.lost()
    }

    /// Runs `future` for as long as the hold lasts; drops it when the hold is lost.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    ///
    /// # Cancel safety
    ///
    /// As `future` itself.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let mut lost = pin!(self.hold.lost());
        poll_fn(|context| {
            // Its first act is to compare the clock, so this notices a loss that no timer has told yet.
            self.check()?;
            if let Poll::Ready(cause) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(Error::lost(cause)));
            }
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Sets the lease to at least `span` from now, with one command.
    ///
    /// # Errors
    ///
    /// `InvalidLease`, `Lost`, and what a request may fail with; the deadline is then what it was.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the deadline is what it was; the lease on the server is that or longer.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        let lease = Lease::fixed(span).map_err(invalid_lease)?;
        self.check()?;
        let client = self.hold.client();
        let deadline = self
            .hold
            .valid_until()
            .min(client.now() + client.patience());
        let call = self.hold.renewal(lease.span());
        // The first try may come too late to act when the server's time was not heard for long; its answer tells it.
        for _ in 0..2 {
            let sent = client.now();
            let reply = client
                .net()
                .insist(&call, lease.attempt_timeout(), deadline)
                .await?;
            match self.hold.primitive().renewed(&reply)? {
                Renewed::Renewed => {
                    self.hold.extended(sent, lease.span());
                    return self.check();
                }
                Renewed::Lost(cause) => {
                    self.hold.lose(cause);
                    return self.check();
                }
                Renewed::Late => {}
            }
        }
        let message = "the server got the extension too late; the lease is what it was";
        Err(Error::new(crate::ErrorKind::Unavailable, message))
    }

    /// Releases and says what became of it, with one command.
    ///
    /// # Errors
    ///
    /// What a request may fail with; the release goes on in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the release goes on in the background.
    pub async fn release(mut self) -> Result<Released, Error> {
        let parting = self.part();
        release::run(self.hold.client(), parting).await
    }

    /// Leaves the hold in this process; the returned parting ends it on the server.
    fn part(&mut self) -> Parting {
        self.released = true;
        self.hold.leave(self.delivered.id.number());
        self.hold
            .parting(self.delivered.id.clone(), self.delivered.void_by)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.released {
            let releases = self.hold.client().keeps(Rule::ReleaseOnDrop);
            let parting = self.part();
            if releases {
                self.hold.client().part(parting);
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name().as_str())
            .field("owner", self.owner())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish()
    }
}

pub(crate) fn invalid_lease(error: LeaseError) -> Error {
    Error::with_source(crate::ErrorKind::InvalidLease, error.to_string(), error)
}
