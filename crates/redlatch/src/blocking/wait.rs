//! Futures and streams on a thread that may block, and how work in a thread learns that it has to
//! stop.

use std::{
    cell::Cell,
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use futures_core::Stream;
use futures_util::StreamExt;
use tokio::{
    runtime::Handle,
    task::{coop::consume_budget, yield_now},
};

use crate::{Error, Lasting};

/// Waits for a future or a builder of redlatch where async code would write `.await`.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # fn main() -> Result<(), redlatch::Error> {
/// use redlatch::blocking::{Client, Wait};
///
/// let client = Client::embedded()?;
/// let guard = client.lock("orders:42").lock().wait()?;
/// println!("{}", guard.release().wait()?);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
///
/// The calling thread polls the future and sleeps in between. All futures of clients, handles and
/// guards can be polled in this way. A future of another library may need the runtime of that
/// library.
pub trait Wait: IntoFuture + Sized {
    /// Blocks until the future is done, and returns its output.
    ///
    /// # Panics
    ///
    /// Panics in async code of tokio, except in `tokio::task::unconstrained`, which looks like
    /// synchronous code.
    #[track_caller]
    fn wait(self) -> Self::Output {
        assert!(!in_async_code(), "{IN_ASYNC_CODE}");
        let done = block_on(self.into_future(), None);
        done.unwrap_or_else(|| unreachable!("there is no limit"))
    }
}

impl<F: IntoFuture> Wait for F {}

/// Reads a stream of redlatch as an iterator.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # fn main() -> Result<(), redlatch::Error> {
/// use redlatch::blocking::{Client, WaitIter};
///
/// let client = Client::embedded()?;
/// for holder in client.locks("orders:*").wait_iter() {
///     println!("{}", holder?.info.name);
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
pub trait WaitIter: Stream + Unpin + Sized {
    /// Returns an iterator over the items. Each step blocks, may send commands, and panics in async
    /// code of tokio.
    fn wait_iter(self) -> Iter<Self> {
        Iter(self)
    }
}

impl<S: Stream + Unpin> WaitIter for S {}

/// The iterator of [`WaitIter::wait_iter`].
#[derive(Debug)]
pub struct Iter<S>(S);

impl<S: Stream + Unpin> Iterator for Iter<S> {
    type Item = S::Item;

    #[track_caller]
    fn next(&mut self) -> Option<S::Item> {
        self.0.next().wait()
    }
}

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

/// Blocks until `future` is done, or until the instant `limit` if there is one; `None` then.
#[expect(
    clippy::disallowed_methods,
    reason = "a limit for a thread that sleeps, not for a hold"
)]
pub(super) fn block_on<F: Future>(future: F, limit: Option<Instant>) -> Option<F::Output> {
    let sleeper = Arc::new(Sleeper {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        let polled = while_polling(true, || future.as_mut().poll(&mut context));
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        while !sleeper.woken.swap(false, Ordering::Acquire) {
            match limit.map(|limit| limit.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(rest) => thread::park_timeout(rest),
            }
        }
    }
}

thread_local! {
    static POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Reports whether this thread polls a future here, and not synchronous work of the caller.
pub(super) fn is_polling() -> bool {
    POLLING.get()
}

/// Calls `call` while this thread counts as polling a future, or as not doing so.
pub(super) fn while_polling<T>(polling: bool, call: impl FnOnce() -> T) -> T {
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            POLLING.set(self.0);
        }
    }

    let _before = Before(POLLING.replace(polling));
    call()
}

/// A thread that sleeps until a future wakes it. The flag tells the wake-up from that of another
/// future of the same thread.
struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Reports whether this thread polls async code of tokio at this moment, so that blocking it would
/// stop tasks.
///
/// A runtime limits how long it polls one task, and does not limit other code, such as that of
/// `spawn_blocking`. So a limit that can be used up shows async code. Tokio has no direct question.
/// Code in `unconstrained` is not recognised.
pub(super) fn in_async_code() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    (0..=u8::MAX).any(|_| pin!(consume_budget()).poll(&mut context).is_pending())
}

const IN_ASYNC_CODE: &str = "redlatch::blocking was called in async code, where it would block a \
    thread of the tokio runtime; use `.await` with redlatch::Client there, or wrap the call in \
    tokio::task::spawn_blocking";
