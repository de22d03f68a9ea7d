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
/// process. Only [`extend`](Self::extend), [`release`](Self::release) and [`forget`](Self::forget)
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
    portions: Vec<Portion>,
}

impl SemaphorePermit {
    /// Returns the number of its permits.
    pub fn num_permits(&self) -> u32 {
        self.portions.iter().map(Portion::units).sum()
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

    /// Merges the permits of another guard of the same client and semaphore. Sends no request.
    ///
    /// # Errors
    ///
    /// Returns `other` if it belongs to another client or semaphore.
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

    /// Returns the state at this instant, the worst of its permits. Sends no request; it reads this
    /// client's clock.
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

    /// Fails with the cause if permits are lost. Call it before each step that relies on them.
    /// Sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`].
    pub fn check(&self) -> Result<(), Error> {
        self.portions.iter().try_for_each(|portion| portion.check())
    }

    /// Returns the deadline by this client's clock, [`Client::now`], if the permits are not
    /// renewed. They may be lost earlier, which [`check`](Self::check) reports.
    pub fn valid_until(&self) -> Moment {
        let deadlines = self.portions.iter().map(|portion| portion.valid_until());
        deadlines.min().unwrap_or(Moment::FAR_FUTURE)
    }

    /// Returns how long the permits may be relied on without a renewal; zero once any is lost.
    pub fn remaining(&self) -> Duration {
        let spans = self.portions.iter().map(|portion| portion.remaining());
        spans.min().unwrap_or(Duration::MAX)
    }

    /// Resolves when permits are lost. It needs no reply: its timer is set to 2 ms before the
    /// deadline.
    ///
    /// Never resolves after all permits of their acquisition have been returned. The future is
    /// `'static` and does not keep the permits.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses nothing; call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        if self.portions.is_empty() {
            return Either::Left(pending());
        }
        let all = self.portions.iter().map(|portion| Box::pin(portion.lost()));
        let first = select_all(all);
        Either::Right(async move { first.await.0 })
    }

    /// Resolves `before` the deadline of the permits, unless they are renewed or extended in time.
    /// Resolves at once when permits are lost and when the client closes. See
    /// [`Held::ending`](redlatch_core::Held::ending).
    ///
    /// Never resolves after all permits of their acquisition have been returned.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses nothing; call it again.
    pub fn ending(&self, before: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        if self.portions.is_empty() {
            return Either::Left(pending());
        }
        let all = self.portions.iter();
        let first = select_all(all.map(|portion| Box::pin(portion.ending(before))));
        Either::Right(async move {
            first.await;
        })
    }

    /// Runs `future` while the permits last. When any is lost, `future` is dropped at its next
    /// await. Each poll checks the clock first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`] with the cause.
    ///
    /// # Cancel safety
    ///
    /// As `future` itself. The guard is unchanged.
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

    /// Extends the permits to at least `span` from now, once: 50 ms to 365 days. Never shortens a
    /// lease. Costs one command for each of their acquisitions.
    ///
    /// # Errors
    ///
    /// `InvalidLease`; `Lost` if permits are lost; `OutOfRange` if the semaphore ends before;
    /// `Permission`, `Closed`; `OutcomeUnknown` or `Unavailable` if the server did not answer
    /// before the deadline, or within the client's `patience`.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the guard keeps its deadline. The leases on the server are unchanged or
    /// longer.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        for portion in &self.portions {
            portion.extend(span).await?;
        }
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
        let portions = std::mem::take(&mut self.portions);
        let all = join_all(portions.into_iter().map(Portion::release)).await;
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

/// Combines the outcomes of several acquisitions into one.
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
