//! Holds of which a number has to last.

use std::{borrow::Borrow, future::Future, pin::pin, time::Duration};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};

use super::{Held, Lasting, Released, guard::while_lasting, linger::together};
use crate::{Error, HoldState, LossCause, Moment};

/// The knowledge that a guard of several holds has of them. The guards of multi-locks, red-locks
/// and semaphores deref to this type.
///
/// The guard needs a number of its holds: all members of a multi-lock, all permits, a quorum of the
/// nodes of a red-lock. The whole is lost when fewer are left.
#[derive(Debug)]
pub struct Bundle<H = Held> {
    holds: Vec<H>,
    needed: usize,
}

/// Methods for the crates of this family.
#[doc(hidden)]
impl<H> Bundle<H> {
    pub const fn new(holds: Vec<H>, needed: usize) -> Self {
        Self { holds, needed }
    }

    /// Creates a bundle of which all holds have to last.
    pub const fn all(holds: Vec<H>) -> Self {
        let needed = holds.len();
        Self { holds, needed }
    }

    /// Adds a hold that has to last as well.
    #[must_use]
    pub fn and(mut self, hold: H) -> Self {
        self.holds.push(hold);
        self.needed += 1;
        self
    }

    /// Changes the number that has to last.
    #[must_use]
    pub fn needs(mut self, needed: usize) -> Self {
        self.needed = needed;
        self
    }

    pub fn into_holds(mut self) -> Vec<H> {
        self.take()
    }

    /// Takes all holds out.
    #[must_use]
    pub fn take(&mut self) -> Vec<H> {
        self.needed = 0;
        std::mem::take(&mut self.holds)
    }

    pub fn holds(&self) -> &[H] {
        &self.holds
    }
}

impl<H: Borrow<Held>> Bundle<H> {
    /// Returns the state at this instant: lost, with the cause of a loss, when fewer holds are left
    /// than the guard needs. Sends no request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: &redlatch::Bundle) -> Result<(), redlatch::Error> {
    /// use redlatch::HoldState;
    ///
    /// if let HoldState::Lost(cause) = guard.state() {
    ///     println!("too few holds are left: {cause}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> HoldState {
        let (mut held, mut unknown, mut cause) = (0, 0, LossCause::Expired);
        for hold in self.iter() {
            match hold.state() {
                HoldState::Held => held += 1,
                HoldState::Lost(why) => cause = why,
                HoldState::Unknown => unknown += 1,
            }
        }
        if held >= self.needed {
            HoldState::Held
        } else if held + unknown >= self.needed {
            HoldState::Unknown
        } else {
            HoldState::Lost(cause)
        }
    }

    /// Returns true if one of the holds followed one that had ended without a release; see
    /// [`Held::is_after_abandonment`].
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn repair() {}
    /// # async fn example(guard: &redlatch::Bundle) {
    /// if guard.is_after_abandonment() {
    ///     repair().await; // a previous holder died in the middle of its work
    /// }
    /// # }
    /// ```
    pub fn is_after_abandonment(&self) -> bool {
        self.iter().any(Held::is_after_abandonment)
    }

    /// Fails with the cause if the whole is lost. Call it before each step that relies on the hold.
    /// Sends no request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn book(_: &str) {}
    /// # async fn example(guard: &redlatch::Bundle) -> Result<(), redlatch::Error> {
    /// for account in ["from", "to"] {
    ///     guard.check()?; // stop if one of the locks is lost
    ///     book(account).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    pub fn check(&self) -> Result<(), Error> {
        match self.state() {
            HoldState::Lost(cause) => Err(self.lost_by(cause)),
            HoldState::Held | HoldState::Unknown => Ok(()),
        }
    }

    /// Returns the deadline of the whole by the client's clock, if nothing renews it; see
    /// [`Held::valid_until`].
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # use redlatch::{Bundle, Client, Error};
    /// # async fn example(guard: &Bundle, client: Client) -> Result<(), Error> {
    /// println!("valid for {:?} without a renewal", guard.valid_until() - client.now());
    /// # Ok(())
    /// # }
    /// ```
    pub fn valid_until(&self) -> Moment {
        let until = |hold: &Held| match hold.state() {
            HoldState::Lost(_) => Moment::default(),
            HoldState::Held | HoldState::Unknown => hold.valid_until(),
        };
        self.least_needed(until, Moment::default(), Moment::FAR_FUTURE)
    }

    /// Returns how long the whole can be relied on if nothing renews it; zero after a loss.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: &redlatch::Bundle) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// let booking = Duration::from_secs(20); // at most
    /// if guard.remaining() < booking {
    ///     guard.extend(booking).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.least_needed(Held::remaining, Duration::ZERO, Duration::MAX)
    }

    /// Resolves when the whole is lost. No reply has to arrive for that. The future owns the data
    /// it needs and does not keep the holds alive.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn transfer() {}
    /// # async fn example(guard: &redlatch::Bundle) {
    /// tokio::select! {
    ///     () = transfer() => println!("done"),
    ///     cause = guard.lost() => println!("stopped, since one of the locks is lost: {cause}"),
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<H> {
        self.too_few(self.iter().map(Held::lost).collect())
    }

    /// Resolves `before` the deadline of the whole, unless enough holds are renewed in time.
    /// Resolves at once when the whole is lost and when the client closes; see [`Held::ending`].
    ///
    /// A hold that was that near to its deadline once counts as ending from then on, even if it is
    /// renewed later.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn transfer() {}
    /// # async fn undo() {}
    /// # async fn example(guard: &redlatch::Bundle) {
    /// use std::time::Duration;
    ///
    /// tokio::select! {
    ///     () = transfer() => println!("done"),
    ///     () = guard.ending(Duration::from_secs(3)) => undo().await, // 3 s are left
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. Call it again.
    pub fn ending(&self, before: Duration) -> impl Future<Output = ()> + Send + 'static + use<H> {
        self.too_few(self.iter().map(|hold| hold.ending(before)).collect())
    }

    /// Runs `future` while the whole lasts. After a loss, `future` is dropped at its next await.
    /// Each poll reads the clock first.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn transfer() -> u64 { 4711 }
    /// # async fn example(guard: &redlatch::Bundle) -> Result<(), redlatch::Error> {
    /// match guard.run(transfer()).await {
    ///     Ok(receipt) => println!("receipt {receipt}"),
    ///     Err(lost) => println!("the transfer was dropped: {lost}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the cause.
    ///
    /// # Cancel safety
    ///
    /// The same as that of `future`. The guard is unchanged.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        while_lasting(pin!(future), || self.check(), pin!(self.lost())).await
    }

    /// Extends each hold to at least `span` from now, once: 50 ms to 365 days. Never shortens a
    /// lease. Costs one command per hold, all at once.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: &redlatch::Bundle) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// guard.extend(Duration::from_secs(60)).await?; // a minute for the next booking
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An error of [`Held::extend`], if fewer holds could be extended than the guard needs. Some
    /// may have been extended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, each hold has its old or its new deadline.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        let results = join_all(self.iter().map(|hold| hold.extend(span))).await;
        let extended = results.iter().filter(|result| result.is_ok()).count();
        match results.into_iter().find_map(Result::err) {
            Some(error) if extended < self.needed => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes a note about each hold, all at once, within a second. For the crates of this family.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, each hold has its note or not.
    #[doc(hidden)]
    pub async fn put_note(&self, note: &str) {
        join_all(self.iter().map(|hold| Box::pin(hold.put_note(note)))).await;
    }

    fn iter(&self) -> impl Iterator<Item = &Held> {
        self.holds.iter().map(Borrow::borrow)
    }

    fn lost_by(&self, cause: LossCause) -> Error {
        let error = Error::lost(cause);
        let lost = |hold: &&Held| hold.state() == HoldState::Lost(cause);
        match self.iter().filter(lost).last() {
            Some(hold) => error.about(hold.kind(), hold.name()),
            None => error,
        }
    }

    /// Returns the value that as many holds reach as are needed; `none` if there are too few holds,
    /// and `any` if no hold is needed.
    fn least_needed<T: Ord + Copy>(&self, value: impl Fn(&Held) -> T, none: T, any: T) -> T {
        let mut values: Vec<_> = self.iter().map(value).collect();
        values.sort_unstable();
        let at = values.len().checked_sub(self.needed);
        at.map_or(none, |at| values.get(at).copied().unwrap_or(any))
    }

    /// Resolves with the first of `ends` after which fewer holds are left than needed.
    fn too_few<F: Future<Output: Send> + Send + 'static>(
        &self,
        mut ends: FuturesUnordered<F>,
    ) -> impl Future<Output = F::Output> + Send + 'static + use<F, H> {
        let spare = self.holds.len().saturating_sub(self.needed);
        async move {
            for _ in 0..spare {
                ends.next().await;
            }
            match ends.next().await {
                Some(end) => end,
                None => std::future::pending().await,
            }
        }
    }
}

/// Drops all holds, and in programs without async code waits once for all releases.
impl<H> Drop for Bundle<H> {
    fn drop(&mut self) {
        let holds = self.take();
        if !holds.is_empty() {
            together(|| drop(holds));
        }
    }
}

impl<H: Borrow<Held> + Send + Sync> Lasting for Bundle<H> {
    fn check(&self) -> Result<(), Error> {
        Self::check(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }
}

impl Bundle {
    /// Releases all holds at once.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the releases continue in the background.
    #[doc(hidden)]
    pub async fn release(self) -> Vec<Result<Released, Error>> {
        let releases = self.into_holds().into_iter();
        join_all(releases.map(|hold| Box::pin(hold.release()))).await
    }
}

/// Makes a guard that derefs to a [`Bundle`](crate::Bundle) a guard of any kind. `$extend` is
/// [`Bundle::extend`](crate::Bundle::extend) or the guard's own function, and `$release` leads from
/// the guard to the outcome of its release. For the crates of this family.
#[doc(hidden)]
#[macro_export]
macro_rules! guards_of_several {
    ($guard:ident, $holds:ty, $extend:expr, $release:expr) => {
        impl std::ops::Deref for $guard {
            type Target = $crate::Bundle<$holds>;

            fn deref(&self) -> &Self::Target {
                &self.bundle
            }
        }

        impl $crate::Renewed for $guard {}

        impl $crate::AnyGuard for $guard {
            fn token(&self) -> Option<$crate::Token> {
                None
            }

            fn is_after_abandonment(&self) -> bool {
                self.bundle.is_after_abandonment()
            }

            fn state(&self) -> $crate::HoldState {
                self.bundle.state()
            }

            fn lost(&self) -> $crate::runtime::BoxFuture<$crate::LossCause> {
                Box::pin(self.bundle.lost())
            }

            fn ending(&self, before: std::time::Duration) -> $crate::runtime::BoxFuture<()> {
                Box::pin(self.bundle.ending(before))
            }

            fn extend(&self, span: std::time::Duration) -> $crate::Extending<'_> {
                Box::pin($extend(self, span))
            }

            fn release(
                self: Box<Self>,
            ) -> $crate::runtime::BoxFuture<Result<$crate::Released, $crate::Error>> {
                Box::pin($release(*self))
            }
        }

        impl From<$guard> for Box<dyn $crate::AnyGuard> {
            fn from(guard: $guard) -> Self {
                Box::new(guard)
            }
        }
    };
}
