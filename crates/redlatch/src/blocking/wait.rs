//! Futures and streams on a thread that may block.

use std::{
    cell::Cell,
    future::{Future, IntoFuture},
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
use tokio::{runtime::Handle, task::coop::consume_budget};

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
