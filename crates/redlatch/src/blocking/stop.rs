//! How work in a thread learns that it has to stop.

use std::{fmt, time::Duration};

use crate::Error;

/// The signal that tells work under a guard to stop. It can be copied into scoped threads.
///
/// Nothing can stop a thread from outside. So work under a guard asks before each step that must
/// not happen without the hold. A question reads the clock and sends no request. A step that has
/// begun is not stopped; the token protects from it.
#[derive(Clone, Copy)]
pub struct Stop<'a>(&'a (dyn Watched + Sync));

/// Something that can be lost while work goes on.
pub(super) trait Watched {
    fn check(&self) -> Result<(), Error>;
    fn remaining(&self) -> Duration;
}

impl<'a> Stop<'a> {
    pub(super) const fn new(watched: &'a (dyn Watched + Sync)) -> Self {
        Self(watched)
    }

    /// Tells whether the hold is lost, so that the work has to stop.
    pub fn is_stopped(self) -> bool {
        self.check().is_err()
    }

    /// Fails if the hold is lost. Put `?` behind it between the steps of the work.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the cause.
    pub fn check(self) -> Result<(), Error> {
        self.0.check()
    }

    /// Returns how long the hold can be relied on if nothing renews it; zero after a loss. Begin a
    /// step only if it takes less.
    pub fn remaining(self) -> Duration {
        self.0.remaining()
    }
}

#[cfg(any(feature = "once", feature = "election"))]
pub(super) mod work {
    //! Work of jobs and terms, which have holds of their own.

    use super::{Duration, Error, Stop, Watched};

    macro_rules! watched {
        ($($(#[$when:meta])* $held:ty => $hold:ty;)*) => {$(
            $(#[$when])*
            impl Watched for $held {
                fn check(&self) -> Result<(), Error> {
                    <$hold>::check(self)
                }

                fn remaining(&self) -> Duration {
                    <$hold>::remaining(self)
                }
            }

            $(#[$when])*
            impl<'a> From<&'a $held> for Stop<'a> {
                fn from(held: &'a $held) -> Self {
                    Self(held)
                }
            }
        )*};
    }

    watched! {
        #[cfg(feature = "once")]
        crate::once::JobRun => crate::Held;
        #[cfg(feature = "election")]
        crate::Term => crate::Term;
    }

    /// Runs `work` on a thread of its own, since the calling one polls async code. Blocks until it
    /// has ended, so that the hold ends after the work. A panic of the work goes on.
    pub(in super::super) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let ended = std::thread::scope(|scope| scope.spawn(work).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Stop");
        shown.field("stopped", &self.is_stopped()).finish()
    }
}
