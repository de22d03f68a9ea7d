//! Clock, timers, tasks and randomness.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{Sleep, sleep},
};
use uuid::Uuid;

use crate::protocol::time::Moment;

/// A boxed future with a static lifetime.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Clock, timers, tasks and randomness: all external services of redlatch except connections.
///
/// Wakers are called, and tasks spawned, under locks of redlatch. So neither may poll a future of
/// redlatch at once.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// Returns the time of the clock. The clock never goes back.
    fn now(&self) -> Moment;

    /// Sleeps until the clock has reached `until`. The sleep may end a little late. It ends early
    /// only if the runtime with the timers has ended.
    fn sleep_until(&self, until: Moment) -> BoxFuture<()>;

    /// Runs `future` in the background. `task` names it in logs and traces.
    fn spawn(&self, task: &'static str, future: BoxFuture<()>);

    /// Returns 64 random bits for jitter. They are not suitable for secrets or unique identifiers.
    fn random(&self) -> u64;

    /// Returns 128 bits for identities, 122 of them random. No other process and no copy of this
    /// process gets the same bits.
    ///
    /// The default implementation uses the operating system, so the bits differ in forked
    /// processes.
    ///
    /// # Panics
    ///
    /// The default implementation panics if the operating system provides no entropy.
    fn entropy(&self) -> u128 {
        Uuid::new_v4().as_u128()
    }

    /// Reports whether this thread waits for the end of what the drop of a guard, or of the last
    /// handle of a client, has begun. By default the drop returns at once, and the background goes
    /// on. A runtime for programs without async code waits.
    fn lingers(&self) -> bool {
        false
    }

    /// Waits on this thread for `end`, for a while. Called only if the runtime [lingers][a].
    ///
    /// [a]: Self::lingers
    fn linger(&self, end: BoxFuture<()>) {
        drop(end);
    }
}

/// The production runtime: tokio's tasks and timers, and a clock that counts suspended time if the
/// platform offers one.
///
/// On Linux the clock is `CLOCK_BOOTTIME`. Elsewhere it is the platform's monotonic clock, which
/// may stop while the machine is suspended. A holder may then rely on an expired lease for as long
/// as the machine was suspended.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
}

impl TokioRuntime {
    /// Creates a runtime that uses the tokio runtime behind `handle` for background work.
    ///
    /// Pass the handle of a separate tokio runtime if other code may block the main one for a long
    /// time. Renewals then continue.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// # use redlatch_core::runtime as redlatch;
    /// use redlatch::TokioRuntime;
    ///
    /// let mut background = tokio::runtime::Builder::new_multi_thread();
    /// let background = background.worker_threads(1).enable_all().build()?;
    /// // For `ClientBuilder::runtime`.
    /// let runtime = TokioRuntime::new(background.handle().clone());
    /// # drop(runtime);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Creates a runtime from the current tokio runtime. Returns `None` outside of one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use redlatch_core::runtime as redlatch;
    /// use redlatch::TokioRuntime;
    ///
    /// assert!(TokioRuntime::current().is_some(), "inside of a tokio runtime");
    /// # }
    /// ```
    pub fn current() -> Option<Self> {
        Handle::try_current().ok().map(Self::new)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where everything else takes time, tasks and randomness from"
)]
impl Runtime for TokioRuntime {
    fn now(&self) -> Moment {
        now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        Box::pin(TokioSleep {
            handle: self.handle.clone(),
            until,
            timer: Timer::Unset,
        })
    }

    fn spawn(&self, _task: &'static str, future: BoxFuture<()>) {
        self.handle.spawn(future);
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// A sleep that may be polled anywhere, even after the runtime of its timer has ended.
///
/// A tokio timer panics if it is polled outside of its runtime after that runtime has ended. If the
/// sleep is polled outside of that runtime, a task inside the runtime polls the timer instead.
struct TokioSleep {
    handle: Handle,
    until: Moment,
    timer: Timer,
}

enum Timer {
    Unset,
    /// The sleep polls the timer itself, inside the runtime of the timer.
    Inside(Pin<Box<Sleep>>),
    /// A task of the timer's runtime polls the timer.
    Outside(JoinHandle<()>),
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where everything else sleeps through"
)]
impl Future for TokioSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let here = Handle::try_current().is_ok_and(|here| here.id() == self.handle.id());
        loop {
            // A tokio timer stops during suspend, and the clock does not. So the clock decides
            // after each timer.
            let rest = self.until.since(now()).min(LONGEST_SLEEP);
            if rest.is_zero() {
                self.timer = Timer::Unset;
                return Poll::Ready(());
            }
            match &mut self.timer {
                Timer::Inside(timer) if here => {
                    ready!(timer.as_mut().poll(context));
                    self.timer = Timer::Unset;
                }
                Timer::Outside(task) => {
                    let slept = ready!(Pin::new(task).poll(context));
                    self.timer = Timer::Unset;
                    // The runtime has ended, and no timer wakes this sleep any more.
                    if slept.is_err() {
                        return Poll::Ready(());
                    }
                }
                Timer::Unset if here => self.timer = Timer::Inside(Box::pin(sleep(rest))),
                Timer::Inside(_) | Timer::Unset => {
                    let sleeping = self.handle.spawn(async move { sleep(rest).await });
                    self.timer = Timer::Outside(sleeping);
                }
            }
        }
    }
}

impl Drop for TokioSleep {
    fn drop(&mut self) {
        if let Timer::Outside(task) = &self.timer {
            task.abort();
        }
    }
}

/// Maximum length of one timer. After a suspend a timer is late by the suspended time, and this
/// bounds the time until the next look at the clock.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

#[cfg(any(target_os = "linux", target_os = "android"))]
fn now() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Moment::from_origin(Duration::new(seconds, nanos))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(
    clippy::disallowed_methods,
    reason = "this is where everything else reads the clock through"
)]
fn now() -> Moment {
    use std::{sync::LazyLock, time::Instant};
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment::from_origin(ORIGIN.elapsed())
}
