//! What all guards have in common: the traits over them, and the type of a guard of one hold.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::{Pin, pin},
    time::Duration,
};

use super::{Held, Released, guard::while_lasting};
use crate::{Error, HoldState, LossCause, Token, runtime::BoxFuture};

/// A guard, a run of a job, or a term of a leader, which can be lost while work is under way.
pub trait Lasting: Send + Sync {
    /// Fails with the cause if the hold is lost. Sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    fn check(&self) -> Result<(), Error>;

    /// Returns how long the hold can be relied on if nothing renews it; zero after a loss.
    fn remaining(&self) -> Duration;
}

impl Lasting for Held {
    fn check(&self) -> Result<(), Error> {
        Self::check(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }
}

impl<G: Deref<Target: Lasting> + Send + Sync> Lasting for G {
    fn check(&self) -> Result<(), Error> {
        <G::Target as Lasting>::check(self)
    }

    fn remaining(&self) -> Duration {
        <G::Target as Lasting>::remaining(self)
    }
}

/// A guard of any kind, for code that keeps guards of several kinds. Each guard of the family can
/// be turned into a `Box<dyn AnyGuard>`. Dropping the box releases, as dropping the guard does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// # use redlatch_core as redlatch;
/// use redlatch::{AnyGuard, Error};
///
/// /// For example `vec![lock.lock().await?.into(), semaphore.acquire().await?.into()]`.
/// async fn finish(held: Vec<Box<dyn AnyGuard>>) -> Result<(), Error> {
///     for guard in &held {
///         guard.check()?;
///         guard.extend(Duration::from_secs(60)).await?;
///     }
///     for guard in held {
///         assert!(guard.release().await?.is_clean());
///     }
///     Ok(())
/// }
/// ```
pub trait AnyGuard: Lasting + fmt::Debug + 'static {
    /// Returns the fencing token; `None` for guards without a token, such as permits, and guards of
    /// several holds.
    fn token(&self) -> Option<Token>;

    /// Returns true if the previous hold ended without a release; see
    /// [`Held::is_after_abandonment`]. Of several holds, one that followed such a hold is enough.
    fn is_after_abandonment(&self) -> bool;

    /// Returns the state at this instant; see [`Held::state`]. Sends no request.
    fn state(&self) -> HoldState;

    /// Resolves when the hold is lost; see [`Held::lost`].
    fn lost(&self) -> BoxFuture<LossCause>;

    /// Resolves `before` the deadline, unless the hold is renewed in time; see [`Held::ending`].
    fn ending(&self, before: Duration) -> BoxFuture<()>;

    /// Extends the lease to at least `span` from now; see [`Held::extend`].
    fn extend(&self, span: Duration) -> Extending<'_>;

    /// Releases, and returns the outcome; see [`Held::release`]. The outcome of several holds is
    /// the worst of them.
    fn release(self: Box<Self>) -> BoxFuture<Result<Released, Error>>;
}

impl dyn AnyGuard {
    /// Runs `future` while the hold lasts. If the hold is lost, `future` is dropped at its next
    /// await. Each poll reads the clock first. Sends no request.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::{AnyGuard, Error};
    ///
    /// async fn import() -> u64 {
    ///     4711 // rows
    /// }
    ///
    /// /// For example under a lock, or under permits of a semaphore.
    /// async fn import_under(guard: Box<dyn AnyGuard>) -> Result<u64, Error> {
    ///     let rows = guard.run(import()).await?;
    ///     guard.release().await?;
    ///     Ok(rows)
    /// }
    /// # let _ = import_under;
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
}

/// The future of [`AnyGuard::extend`].
pub type Extending<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

impl AnyGuard for Held {
    fn token(&self) -> Option<Token> {
        Some(self.granted_token()).filter(|&token| token != Token::NONE)
    }

    fn is_after_abandonment(&self) -> bool {
        Self::is_after_abandonment(self)
    }

    fn state(&self) -> HoldState {
        Self::state(self)
    }

    fn lost(&self) -> BoxFuture<LossCause> {
        Box::pin(Self::lost(self))
    }

    fn ending(&self, before: Duration) -> BoxFuture<()> {
        Box::pin(Self::ending(self, before))
    }

    fn extend(&self, span: Duration) -> Extending<'_> {
        Box::pin(Self::extend(self, span))
    }

    fn release(self: Box<Self>) -> BoxFuture<Result<Released, Error>> {
        Box::pin(Self::release(*self))
    }
}

/// A guard whose lease is renewed while it lives.
pub trait Renewed {}

/// A guard of a hold that belongs to an [`Owner`](crate::Owner).
pub trait Owned: Renewed {}

impl Renewed for Held {}

impl Owned for Held {}

/// Defines guards of one hold, which deref to [`Held`]. For the crates of this family, which add
/// methods of their kinds.
#[doc(hidden)]
#[macro_export]
macro_rules! guards {
    ($($(#[$about:meta])* $guard:ident;)*) => {$(
        $(#[$about])*
        #[must_use = "a guard that is dropped at once releases at once"]
        pub struct $guard($crate::Held);

        impl $guard {
            /// Releases this guard and returns the outcome. Costs one command.
            ///
            /// An earlier loss of the hold is an outcome and not an error; see
            /// [`Released`]($crate::Released).
            ///
            /// ```no_run
            /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
            /// match guard.release().await? {
            ///     outcome if outcome.is_clean() => println!("held to the end"),
            ///     outcome => eprintln!("check what was written: {outcome}"),
            /// }
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// # Errors
            ///
            /// Those of [`Held::release`]($crate::Held::release).
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped, the release continues in the background.
            pub async fn release(self) -> Result<$crate::Released, $crate::Error> {
                self.0.release().await
            }
        }

        impl $crate::Renewed for $guard {}

        impl $crate::Owned for $guard {}

        impl From<$crate::Held> for $guard {
            fn from(held: $crate::Held) -> Self {
                Self(held)
            }
        }

        impl From<$guard> for Box<dyn $crate::AnyGuard> {
            fn from(guard: $guard) -> Self {
                Box::new(guard.0)
            }
        }

        impl std::ops::Deref for $guard {
            type Target = $crate::Held;

            fn deref(&self) -> &$crate::Held {
                &self.0
            }
        }

        impl std::fmt::Debug for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}
