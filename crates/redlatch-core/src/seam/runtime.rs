//! Clock, timers, tasks and randomness.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use tokio::runtime::Handle;

use crate::protocol::time::Moment;

/// An owned future of any type.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Clock, timers, tasks and randomness, all that redlatch takes from the world besides connections.
pub trait Runtime: Send + Sync + fmt::Debug + 'static {
    /// Reads the clock. It never goes back.
    fn now(&self) -> Moment;

    /// Sleeps until the clock has reached `until`; may wake a little late, never early.
    fn sleep_until(&self, until: Moment) -> BoxFuture<()>;

    /// Runs `future` in the background. `task` names it in logs and traces.
    fn spawn(&self, task: &'static str, future: BoxFuture<()>);

    /// Draws 64 random bits. Not for secrets.
    fn random(&self) -> u64;
}

/// The production runtime: tokio's tasks and timers, and a clock that counts suspend where there is one.
///
/// On Linux the clock is `CLOCK_BOOTTIME`. Elsewhere it is the platform's monotonic clock, which may stand still while the
/// machine is suspended: there a holder can believe in its lease for as long as it slept.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
}

impl TokioRuntime {
    /// Uses the runtime behind `handle` for background work.
    ///
    /// Give it the handle of a runtime of its own when the main one may be blocked by other code for long: renewals then go on.
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
    reason = "this is the seam that everything else takes time, tasks and randomness through"
)]
impl Runtime for TokioRuntime {
    fn now(&self) -> Moment {
        now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        // A tokio timer stands still during suspend and the clock does not, so the clock decides after each.
        let handle = self.handle.clone();
        Box::pin(async move {
            loop {
                let rest = until.since(now());
                if rest.is_zero() {
                    return;
                }
                let rest = rest.min(LONGEST_SLEEP);
                let sleep = {
                    let _entered = handle.enter();
                    tokio::time::sleep(rest)
                };
                sleep.await;
            }
        })
    }

    fn spawn(&self, _task: &'static str, future: BoxFuture<()>) {
        self.handle.spawn(future);
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// After a suspend a timer is late by the time slept; this bounds how long nobody looks at the clock.
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
    reason = "this is the seam that everything else reads the clock through"
)]
fn now() -> Moment {
    use std::{sync::LazyLock, time::Instant};
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment::from_origin(ORIGIN.elapsed())
}
