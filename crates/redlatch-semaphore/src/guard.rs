//! The guard of permits.

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use futures_util::future::{Either, join_all, select_all};
use redlatch_core::{
    Client, Error, ErrorKind, Held, HoldState, LossCause, Moment, Released, family::Portion,
};
use redlatch_pool::Renewed;

/// Permits of a [`Semaphore`](crate::Semaphore). Dropping it gives them back in the background; [`release`](Self::release) also tells what became of them.
///
/// It owns what it needs, is `Send`, and may be dropped anywhere, also during a panic and outside of a runtime. A drop only queues the release: if the process exits right
/// after, it may never be sent, and the permits come back when their lease ends. Where that matters, await [`release`](Self::release), or end the program with
/// [`Client::close`](redlatch_core::Client::close).
///
/// Permits of one acquisition have one lease, however they are split; a guard into which permits of several were merged is lost as soon as any of them is.
/// Its state is what this process knows: nothing but [`extend`](Self::extend), [`release`](Self::release) and [`forget`](Self::forget) talks to the server.
///
/// # Examples
///
/// ```no_run
/// # async fn fetch() -> u32 { 0 }
/// # async fn example(semaphore: redlatch_semaphore::Semaphore) -> Result<(), redlatch_core::Error> {
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
    portions: Vec<Portion>,
}

impl SemaphorePermit {
    /// Returns how many permits it has.
    pub fn num_permits(&self) -> u32 {
        self.portions.iter().map(Portion::units).sum()
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client that has them.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Takes `n` permits away into a guard of their own. Asks nobody.
    ///
    /// # Errors
    ///
    /// `InvalidOption` if it has fewer; it then keeps them all.
    pub fn split(&mut self, n: u32) -> Result<Self, Error> {
        let has = self.num_permits();
        if n > has {
            let message = format!("{n} permits cannot be split off {has}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let mut missing = n;
        let mut portions = Vec::new();
        while missing > 0 {
            let Some(mut last) = self.portions.pop() else {
                break;
            };
            if last.units() <= missing {
                missing -= last.units();
                portions.push(last);
                continue;
            }
            portions.extend(last.split(missing));
            self.portions.push(last);
            missing = 0;
        }
        Ok(Self {
            client: self.client.clone(),
            name: self.name.clone(),
            portions,
        })
    }

    /// Takes in the permits of another guard of the same client and semaphore. Asks nobody.
    ///
    /// # Errors
    ///
    /// Gives `other` back if it is of another client or semaphore.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        if self.client.id() != other.client.id() || self.name != other.name {
            return Err(other);
        }
        for portion in other.portions.drain(..) {
            let mut rest = Some(portion);
            for own in &mut self.portions {
                rest = rest.take().and_then(|portion| own.merge(portion));
            }
            self.portions.extend(rest);
        }
        Ok(())
    }

    /// Returns the state at this instant, the worst of its permits. Asks nobody: compares this client's clock.
    pub fn state(&self) -> HoldState {
        let mut worst = HoldState::Held;
        for portion in &self.portions {
            match portion.state() {
                lost @ HoldState::Lost(_) => return lost,
                HoldState::Unknown => worst = HoldState::Unknown,
                _ => {}
            }
        }
        worst
    }

    /// Fails with the cause if permits are lost; call it before each step that relies on them. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`].
    pub fn check(&self) -> Result<(), Error> {
        self.portions.iter().try_for_each(|portion| portion.check())
    }

    /// Returns the deadline by this client's clock, [`Client::now`], if nothing renews the permits. Only looks: they may be lost before, which
    /// [`check`](Self::check) tells.
    pub fn valid_until(&self) -> Moment {
        let deadlines = self.portions.iter().map(|portion| portion.valid_until());
        deadlines.min().unwrap_or(Moment::FAR_FUTURE)
    }

    /// Returns how long the permits may be relied on if nothing renews them; zero once any is lost.
    pub fn remaining(&self) -> Duration {
        let spans = self.portions.iter().map(|portion| portion.remaining());
        spans.min().unwrap_or(Duration::MAX)
    }

    /// Resolves when permits are lost, without any reply having to arrive: its timer is set to 2 ms before the deadline.
    ///
    /// Never resolves once all permits of their acquisition have been given back. The future owns what it needs and does not keep the permits.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        if self.portions.is_empty() {
            return Either::Left(pending());
        }
        let all = self.portions.iter().map(|portion| Box::pin(portion.lost()));
        let first = select_all(all);
        Either::Right(async move { first.await.0 })
    }

    /// Runs `future` for as long as the permits last. When any is lost, `future` is dropped at its next await. Each poll compares the clock first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] with the cause.
    ///
    /// # Cancel safety
    ///
    /// As `future` itself; the guard stays as it is.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let mut lost = pin!(self.lost());
        poll_fn(|context| {
            if let Poll::Ready(cause) = lost.as_mut().poll(context) {
                let message = format!("the permits were lost: {cause}");
                return Poll::Ready(Err(Error::new(ErrorKind::Lost(cause), message)));
            }
            self.check()?;
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Makes the permits last at least `span` from now, once: 50 ms to 365 days. Never shortens. Costs one command for each acquisition they are from.
    ///
    /// # Errors
    ///
    /// `InvalidLease`; `Lost` if permits are lost; `OutOfRange` if the semaphore ends before; `Permission`, `Closed`; `OutcomeUnknown` or `Unavailable` if the server
    /// did not answer before the deadline, or for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the guard keeps the deadline it had; the leases on the server are what they were or longer.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        for portion in &self.portions {
            portion.extend(span).await?;
        }
        Ok(())
    }

    /// Gives the permits back and says what became of them. Costs one command for each acquisition they are from.
    ///
    /// [`Released::Free`] if nothing of their acquisitions is left, `StillHeld(n)` if split guards have n more. That they had been lost before is an answer and
    /// not an error; of several, the answer about those is given.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer for as long as the client is patient; the release goes on in the background.
    /// `Permission`, and `Closed` when the client has been closed, which released it already if the server could be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the release goes on in the background.
    pub async fn release(mut self) -> Result<Released, Error> {
        let portions = std::mem::take(&mut self.portions);
        let all = join_all(portions.into_iter().map(Portion::release)).await;
        combined(all)
    }

    /// Gives the permits up for good: the semaphore has so many less from now on, exactly once, as with [`add_permits`](crate::Semaphore::add_permits) of
    /// less than zero. Costs one command for each acquisition they are from.
    ///
    /// # Errors
    ///
    /// `Lost` if the permits had come back before, because their lease had ended: then the semaphore has as many as before. Otherwise as
    /// [`release`](Self::release); what had no answer goes on in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll, it goes on in the background.
    pub async fn forget(mut self) -> Result<(), Error> {
        let portions = std::mem::take(&mut self.portions);
        let all = join_all(portions.into_iter().map(Portion::forget)).await;
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

/// Makes one answer of those for the permits of several acquisitions.
fn combined(all: Vec<Result<Released, Error>>) -> Result<Released, Error> {
    let mut left = 0;
    let mut worst = None;
    for released in all {
        match released? {
            Released::Free => {}
            Released::StillHeld(units) => left += units,
            other => worst = Some(other),
        }
    }
    Ok(match worst {
        Some(released) => released,
        None if left == 0 => Released::Free,
        None => Released::StillHeld(left),
    })
}

impl Renewed for SemaphorePermit {}

impl From<Held> for SemaphorePermit {
    fn from(held: Held) -> Self {
        Self {
            client: held.client().clone(),
            name: held.name().to_owned(),
            portions: vec![Portion::new(held)],
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
