//! The guard of permits.

use std::fmt;

use futures_util::future::join_all;
use redlatch_core::{
    Bundle, Client, Error, ErrorKind, Held, LossCause, Released, family::Portion, guards_of_several,
};
use redlatch_pool::Renewed;

/// Permits of a [`Semaphore`](crate::Semaphore). Dropping it gives them back in the background;
/// [`release`](Self::release) also returns the outcome.
///
/// The guard is `'static` and `Send`, and may be dropped anywhere, even during a panic or outside
/// of a runtime. A drop only queues the release. If the process exits right afterwards, the release
/// may never be sent, and the permits come back when their lease ends. Where that matters, await
/// [`release`](Self::release), or end the program with
/// [`Client::close`](redlatch_core::Client::close).
///
/// Permits of one acquisition have one lease, even after a split. A guard with merged permits of
/// several acquisitions is lost as soon as any of them is. Its state is the knowledge of this
/// process. Only [`extend`](Bundle::extend), [`release`](Self::release) and [`forget`](Self::forget)
/// send requests.
///
/// # Examples
///
/// ```no_run
/// # async fn fetch() -> u32 { 0 }
/// # async fn example(semaphore: redlatch::Semaphore) -> Result<(), redlatch::Error> {
/// let mut permits = semaphore.acquire_many(3).await?;
/// let one = permits.split(1)?;
/// // Dropped at its next await, should the permits be lost.
/// let page = one.run(fetch()).await?;
/// one.release().await?;
/// assert_eq!(permits.num_permits(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "permits that are dropped at once are given back at once"]
pub struct SemaphorePermit {
    client: Client,
    name: String,
    bundle: Bundle<Portion>,
}

impl SemaphorePermit {
    /// Returns the number of its permits.
    pub fn num_permits(&self) -> u32 {
        self.bundle.holds().iter().map(Portion::units).sum()
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client that holds them.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Splits `n` permits off into a guard of their own. Sends no request.
    ///
    /// # Errors
    ///
    /// `InvalidOption` if it has fewer; this guard then keeps all of them.
    pub fn split(&mut self, n: u32) -> Result<Self, Error> {
        let has = self.num_permits();
        if n > has {
            let message = format!("{n} permits cannot be split off {has}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let (mut missing, mut kept, mut split) = (n, self.bundle.take(), Vec::new());
        while missing > 0
            && let Some(mut last) = kept.pop()
        {
            if last.units() <= missing {
                missing -= last.units();
                split.push(last);
            } else {
                split.extend(last.split(missing));
                missing = 0;
                kept.push(last);
            }
        }
        self.bundle = Bundle::all(kept);
        Ok(Self {
            client: self.client.clone(),
            name: self.name.clone(),
            bundle: Bundle::all(split),
        })
    }

    /// Merges the permits of another guard of the same client and semaphore. Sends no request.
    ///
    /// # Errors
    ///
    /// Returns `other` if it belongs to another client or semaphore.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        if self.client.id() != other.client.id() || self.name != other.name {
            return Err(other);
        }
        let mut portions = self.bundle.take();
        for portion in other.bundle.take() {
            let mut rest = Some(portion);
            for own in &mut portions {
                rest = rest.take().and_then(|portion| own.merge(portion));
            }
            portions.extend(rest);
        }
        self.bundle = Bundle::all(portions);
        Ok(())
    }

    /// Returns the permits, and reports the outcome. Costs one command for each of their
    /// acquisitions.
    ///
    /// [`Released::Free`] if nothing of their acquisitions is left, `StillHeld(n)` if split guards
    /// have n more. An earlier loss is an outcome and not an error; of several acquisitions, the
    /// outcome of a lost one is returned.
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
    pub async fn release(mut self) -> Result<Released, Error> {
        let all = join_all(self.bundle.take().into_iter().map(Portion::release)).await;
        combined(all)
    }

    /// Removes the permits for good, exactly once. The total falls by their number, as with a
    /// negative [`add_permits`](crate::Semaphore::add_permits). Costs one command for each of their
    /// acquisitions.
    ///
    /// # Errors
    ///
    /// `Lost` if the permits had already come back because their lease had ended; the total is then
    /// unchanged. Otherwise as [`release`](Self::release); unanswered requests continue in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// After its first poll, a dropped future continues in the background.
    pub async fn forget(mut self) -> Result<(), Error> {
        let all = join_all(self.bundle.take().into_iter().map(Portion::forget)).await;
        match combined(all)? {
            Released::Free | Released::StillHeld(_) => Ok(()),
            Released::Unconfirmed => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "sent again; the server no longer knows what the first one found",
            )),
            other => Err(Error::new(
                ErrorKind::Lost(LossCause::Expired),
                format!("the permits were lost before they could be forgotten: {other}"),
            )),
        }
    }
}

guards_of_several!(
    SemaphorePermit,
    Portion,
    Bundle::extend,
    SemaphorePermit::release
);

/// Combines the outcomes of several acquisitions into one.
fn combined(all: Vec<Result<Released, Error>>) -> Result<Released, Error> {
    let all: Result<Vec<_>, _> = all.into_iter().collect();
    all.map(Released::together)
}

impl Renewed for SemaphorePermit {}

impl From<Held> for SemaphorePermit {
    fn from(held: Held) -> Self {
        Self {
            client: held.client().clone(),
            name: held.name().to_owned(),
            bundle: Bundle::all(vec![Portion::new(held)]),
        }
    }
}

impl fmt::Debug for SemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit")
            .field("name", &self.name)
            .field("permits", &self.num_permits())
            .field("state", &self.state())
            .finish()
    }
}
