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

/// An owned future of any type.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Clock, timers, tasks and randomness, all that redlatch takes from the world besides connections.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// Reads the clock. It never goes back.
    fn now(&self) -> Moment;

    /// Sleeps until the clock has reached `until`; may wake a little late, and early only if the
    /// runtime that has the timers has ended.
    fn sleep_until(&self, until: Moment) -> BoxFuture<()>;

    /// Runs `future` in the background. `task` names it in logs and traces.
    fn spawn(&self, task: &'static str, future: BoxFuture<()>);

    /// Draws 64 random bits. Not for secrets, and not for what has to be unique: for jitter.
    fn random(&self) -> u64;

    /// Draws 128 bits that no other process and no copy of this one draws, 122 of them random:
    /// identities are made of them.
    ///
    /// By default they come from the operating system, and differ in forked processes.
    ///
    /// # Panics
    ///
    /// By default, if the operating system has no entropy to give.
    fn entropy(&self) -> u128 {
        Uuid::new_v4().as_u128()
    }
}

/// The production runtime: tokio's tasks and timers, and a clock that counts suspend where there is
/// one.
///
/// On Linux the clock is `CLOCK_BOOTTIME`. Elsewhere it is the platform's monotonic clock, which
/// may stand still while the machine is suspended: there a holder can believe in its lease for as
/// long as it slept.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
}

impl TokioRuntime {
    /// Uses the runtime behind `handle` for background work.
    ///
    /// Give it the handle of a runtime of its own when the main one may be blocked by other code
    /// for long: renewals then go on.
    pub const fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Uses the runtime this is called from; `None` outside of one.
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

/// A sleep that may be polled anywhere, also when the runtime of its timer has ended.
///
/// A timer of tokio must not be polled outside of its runtime, since it panics once that has ended.
/// So it is polled there, by a task, unless this is polled there.
struct TokioSleep {
    handle: Handle,
    until: Moment,
    timer: Timer,
}

enum Timer {
    Unset,
    /// Polled in its runtime.
    Inside(Pin<Box<Sleep>>),
    /// Polled by a task of its runtime.
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
            // A tokio timer stands still during suspend and the clock does not, so the clock
            // decides after each.
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
                    // The runtime has ended, and nothing wakes this any more.
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

/// After a suspend a timer is late by the time slept; this bounds how long nobody looks at the
/// clock.
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
