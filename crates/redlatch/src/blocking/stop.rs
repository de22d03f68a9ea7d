//! How work in a thread learns that it has to stop.

use std::{fmt, time::Duration};

use tokio::task::yield_now;

use super::wait::while_polling;
use crate::{Error, Lasting};

/// Runs synchronous `work` where async code would run a future: under a guard, a run of a job, or a
/// term of a leader. The work asks its [`Stop`] between its steps.
///
/// The future is ready when the work has returned. If the hold is lost by then, the future is ready
/// at its second poll, before which the call that runs the future reports the loss.
///
/// # Cancel safety
///
/// The work runs within the first poll, so a drop before runs nothing, and a drop after loses the
/// value of the work.
///
/// # Examples
///
/// ```
/// # #[cfg(all(feature = "embedded", feature = "once"))]
/// # fn main() -> Result<(), redlatch::Error> {
/// use redlatch::{blocking::{Client, Wait, work}, once::Once};
///
/// let client = Client::embedded()?;
/// let guard = client.lock("orders:42").lock().wait()?;
/// let sum = guard.run(work(&guard, |stop| stop.check().map(|()| 40 + 2))).wait()??;
/// assert_eq!(sum, 42);
///
/// let job = client.once("nightly").slot("2026-11-28");
/// let ran = job.run(async |run| work(run, |stop| stop.check()).await).wait()?;
/// assert!(matches!(ran, Once::Ran(())));
/// # Ok(())
/// # }
/// # #[cfg(not(all(feature = "embedded", feature = "once")))]
/// # fn main() {}
/// ```
pub async fn work<T>(hold: &impl Lasting, work: impl FnOnce(Stop<'_>) -> T) -> T {
    let value = while_polling(false, || work(Stop(hold)));
    if hold.check().is_err() {
        // Otherwise work that has returned late would count as work under the hold. While a client
        // closes, a run of a job still counts.
        yield_now().await;
    }
    value
}

/// The signal that tells work under a guard to stop. It can be copied into scoped threads.
///
/// No thread can be stopped from outside. So work under a guard asks before each step that must
/// not happen without the hold. A question reads the clock and sends no request. A step that has
/// begun is not stopped; the token protects from it.
#[derive(Clone, Copy)]
pub struct Stop<'a>(&'a dyn Lasting);

impl Stop<'_> {
    /// Reports whether the hold is lost, so that the work has to stop.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # fn main() -> Result<(), redlatch::Error> {
    /// # use redlatch::blocking::{Client, Wait, work};
    /// # let client = Client::embedded()?;
    /// let guard = client.lock("invoices").lock().wait()?;
    /// let sent = guard.run(work(&guard, |stop| {
    ///     (0..100).take_while(|_invoice| !stop.is_stopped()).count()
    /// })).wait()?;
    /// assert_eq!(sent, 100);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn is_stopped(self) -> bool {
        self.check().is_err()
    }

    /// Fails if the hold is lost. Put `?` behind it between the steps of the work.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # fn main() -> Result<(), redlatch::Error> {
    /// # use redlatch::blocking::{Client, Wait, work};
    /// # let client = Client::embedded()?;
    /// let guard = client.lock("copy").lock().wait()?;
    /// guard.run(work(&guard, |stop| {
    ///     for table in ["orders", "invoices"] {
    ///         stop.check()?; // before each table
    ///         println!("copy {table}");
    ///     }
    ///     Ok::<_, redlatch::Error>(())
    /// })).wait()??;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the cause.
    pub fn check(self) -> Result<(), Error> {
        self.0.check()
    }

    /// Returns how long the hold can be relied on if nothing renews it; zero after a loss. Begin a
    /// step only if the step takes less.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # fn main() -> Result<(), redlatch::Error> {
    /// # use std::time::Duration;
    /// # use redlatch::blocking::{Client, Wait, work};
    /// # let client = Client::embedded()?;
    /// let guard = client.lock("copy").lock().wait()?;
    /// let step = Duration::from_secs(5); // for each table at most
    /// let enough = guard.run(work(&guard, |stop| stop.remaining() > step)).wait()?;
    /// assert!(enough, "begin with a table");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn remaining(self) -> Duration {
        self.0.remaining()
    }
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Stop");
        shown.field("stopped", &self.is_stopped()).finish()
    }
}
