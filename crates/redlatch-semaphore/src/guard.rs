//! The guard of permits.

use futures_util::future::join_all;
use redlatch_core::{
    Bundle, Client, Error, ErrorKind, Held, LossCause, Released, family::Portion, guards_of_several,
};

/// Permits of a [`Semaphore`](crate::Semaphore). Dropping the guard returns the permits in the
/// background. [`release`](Self::release) also returns the outcome.
///
/// Drop, loss and exit are as with [`LockGuard`](../redlatch/struct.LockGuard.html). Permits of one
/// acquisition have one lease, even after a split. A guard with merged permits of several
/// acquisitions is lost as soon as any of them is lost. Only [`extend`](Bundle::extend),
/// [`release`](Self::release) and [`forget`](Self::forget) send requests.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// # async fn fetch() -> u32 { 7 }
/// let api = client.semaphore("partner-api").permits_if_unset(8);
/// let permit = api.acquire().await?;
/// // `run` drops the future at its next await if the permit is lost.
/// let page = permit.run(fetch()).await?;
/// assert_eq!(page, 7);
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "permits that are dropped at once are given back at once"]
pub struct SemaphorePermit {
    client: Client,
    name: String,
    bundle: Bundle<Portion>,
}

impl SemaphorePermit {
    /// Returns the number of permits in this guard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let memory = client.semaphore("gpu:memory:gb").permits_if_unset(24);
    /// let training = memory.acquire_many(16).await?;
    /// assert_eq!(training.num_permits(), 16);
    /// # Ok(())
    /// # }
    /// ```
    pub fn num_permits(&self) -> u32 {
        self.bundle.holds().iter().map(Portion::units).sum()
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client that acquired the permits.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Splits `n` permits off into a guard of their own. Sends no request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let cores = client.semaphore("cores").permits_if_unset(8);
    /// let mut permits = cores.acquire_many(8).await?;
    /// // The first phase needs all cores, and the second needs two.
    /// let rest = permits.split(6)?;
    /// rest.release().await?;
    /// assert_eq!(permits.num_permits(), 2);
    /// assert_eq!(cores.available_permits().await?, 6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` if the guard has fewer than `n` permits. The guard keeps its permits then.
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
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let cores = client.semaphore("cores").permits_if_unset(8);
    /// let mut permits = cores.acquire_many(2).await?;
    /// if let Some(more) = cores.try_acquire_many(4).await? {
    ///     permits.merge(more).expect("the same semaphore");
    /// }
    /// assert_eq!(permits.num_permits(), 6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `other` if `other` belongs to another client or semaphore.
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

    /// Returns the permits, and reports the outcome. Costs one command for each acquisition that
    /// the permits come from.
    ///
    /// The outcome is [`Released::Free`] if nothing of the acquisitions is left, and `StillHeld(n)`
    /// if split guards have n more permits. An earlier loss is an outcome and not an error. Of
    /// several acquisitions, the outcome of a lost one is returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::Released;
    ///
    /// let cores = client.semaphore("cores").permits_if_unset(8);
    /// let mut permits = cores.acquire_many(3).await?;
    /// let one = permits.split(1)?;
    /// assert_eq!(one.release().await?, Released::StillHeld(2));
    /// assert_eq!(permits.release().await?, Released::Free);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). An unanswered release continues in the
    /// background. If the client has been closed, the permits have been returned if the server was
    /// reachable.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the release continues in the background.
    pub async fn release(mut self) -> Result<Released, Error> {
        let all = join_all(self.bundle.take().into_iter().map(Portion::release)).await;
        let all: Result<Vec<_>, _> = all.into_iter().collect();
        all.map(Released::together)
    }

    /// Removes the permits from the semaphore, exactly once. The total falls by their number, as
    /// with a negative [`add_permits`](crate::Semaphore::add_permits). Costs one command for each
    /// acquisition that the permits come from.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let licenses = client.semaphore("licenses").permits_if_unset(5);
    /// let expired = licenses.acquire_many(2).await?;
    /// expired.forget().await?;
    /// assert_eq!(licenses.permits().await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Lost` if permits had already come back because their lease had ended. The total falls by
    /// the number of the others, which are merged permits of other acquisitions. The message says
    /// how many permits were forgotten and how many were lost. Otherwise as
    /// [`release`](Self::release). Unanswered requests continue in the background.
    ///
    /// # Cancel safety
    ///
    /// After its first poll, a dropped future continues in the background.
    pub async fn forget(mut self) -> Result<(), Error> {
        let portions = self.bundle.take();
        let permits: Vec<_> = portions.iter().map(Portion::units).collect();
        let all = join_all(portions.into_iter().map(Portion::forget)).await;
        let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut forgotten, mut lost) = (0, 0);
        for (permits, released) in permits.into_iter().zip(&all) {
            match released {
                Released::Free | Released::StillHeld(_) => forgotten += permits,
                Released::Unconfirmed => {}
                _ => lost += permits,
            }
        }
        match Released::together(all) {
            Released::Free | Released::StillHeld(_) => Ok(()),
            Released::Unconfirmed => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "sent again; the server no longer knows what the first one found",
            )),
            other => Err(Error::new(
                ErrorKind::Lost(LossCause::Expired),
                format!("permits forgotten: {forgotten}, lost before that: {lost} ({other})"),
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

impl From<Held> for SemaphorePermit {
    fn from(held: Held) -> Self {
        Self {
            client: held.client().clone(),
            name: held.name().to_owned(),
            bundle: Bundle::all(vec![Portion::new(held)]),
        }
    }
}
