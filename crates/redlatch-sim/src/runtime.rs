//! What a client takes for the world: a clock of its own that runs fast or slow, timers, tasks, randomness.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use redlatch_core::{
    Moment,
    seam::{BoxFuture, Runtime},
};

use crate::{
    exec::{Exec, ProcId, lock},
    rng::Rng,
};

/// A clock that runs at a rate of its own.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What it says at true time zero, in microseconds.
    pub offset: u64,
    /// How many parts per million it runs fast; negative if slow.
    pub drift: i64,
}

impl Clock {
    /// Returns what it says at the true time `at`.
    pub fn read(self, at: u64) -> u64 {
        self.offset + at * self.rate() / MILLION
    }

    /// Returns the first true time at which it says `reading` or more.
    pub fn when(self, reading: u64) -> u64 {
        (reading.saturating_sub(self.offset) * MILLION).div_ceil(self.rate())
    }

    fn rate(self) -> u64 {
        MILLION.saturating_add_signed(self.drift)
    }
}

/// The runtime of one process.
#[derive(Clone, Debug)]
pub struct SimRuntime {
    exec: Arc<Exec>,
    proc: ProcId,
    clock: Clock,
    rng: Arc<Mutex<Rng>>,
}

impl SimRuntime {
    /// Makes the runtime of `proc`.
    pub fn new(exec: Arc<Exec>, proc: ProcId, clock: Clock, rng: Rng) -> Self {
        Self {
            exec,
            proc,
            clock,
            rng: Arc::new(Mutex::new(rng)),
        }
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Moment {
        Moment::from_origin(Duration::from_micros(self.clock.read(self.exec.now())))
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        Box::pin(Sleep {
            runtime: self.clone(),
            until,
            timer: None,
        })
    }

    fn spawn(&self, _task: &'static str, future: BoxFuture<()>) {
        self.exec.spawn(self.proc, future);
    }

    fn random(&self) -> u64 {
        lock(&self.rng).next()
    }
}

struct Sleep {
    runtime: SimRuntime,
    until: Moment,
    timer: Option<((u64, u64), Waker)>,
}

impl Sleep {
    fn cancel(&mut self) {
        if let Some((key, _)) = self.timer.take() {
            self.runtime.exec.cancel(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.runtime.now() >= self.until {
            self.cancel();
            return Poll::Ready(());
        }
        // Rounded up: at a whole microsecond before it the timer would fire too soon, and not again.
        let until = self.until.since_origin().as_nanos().div_ceil(1000);
        let Some(until) = u64::try_from(until).ok().filter(|&until| until < NEVER) else {
            return Poll::Pending;
        };
        let waker = context.waker();
        if !self
            .timer
            .as_ref()
            .is_some_and(|(_, set)| set.will_wake(waker))
        {
            self.cancel();
            let key = self
                .runtime
                .exec
                .timer(self.runtime.clock.when(until), waker.clone());
            self.timer = Some((key, waker.clone()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

const MILLION: u64 = 1_000_000;

/// No run lasts so long, in microseconds.
const NEVER: u64 = 1_000_000 * MILLION;
