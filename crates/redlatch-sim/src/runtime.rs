//! The runtime of a simulated client: a clock that runs fast or slow, timers, tasks, random
//! numbers.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use redlatch_core::{
    Moment,
    runtime::{BoxFuture, Runtime},
};

use crate::{
    exec::{Exec, ProcId, lock},
    rng::Rng,
};

/// A clock that runs fast or slow, at a constant or a changing rate.
#[derive(Clone, Debug)]
pub struct Clock(Arc<[Stretch]>);

/// A period in which a clock runs at one rate.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The true time at which it begins, in microseconds.
    from: u64,
    /// The reading of the clock at that time.
    reading: u64,
    /// The drift in parts per million; negative for a slow clock.
    drift: i64,
}

impl Clock {
    /// Creates a clock that shows `offset` microseconds at true time zero and gains `drift` parts
    /// per million.
    pub fn steady(offset: u64, drift: i64) -> Self {
        Self(Arc::new([Stretch {
            from: 0,
            reading: offset,
            drift,
        }]))
    }

    /// Creates a clock that gains or loses up to `most` parts per million, and changes its rate
    /// from time to time.
    pub fn wandering(offset: u64, most: u64, rng: &mut Rng) -> Self {
        let mut stretches = Vec::new();
        let (mut from, mut reading) = (0, offset);
        while from < WANDERS {
            let drift = match rng.below(3) {
                0 => most.cast_signed(),
                1 => -most.cast_signed(),
                _ => rng.below(2 * most + 1).cast_signed() - most.cast_signed(),
            };
            let stretch = Stretch {
                from,
                reading,
                drift,
            };
            from += rng.between(20_000, 5_000_000);
            reading = stretch.read(from);
            stretches.push(stretch);
        }
        Self(stretches.into())
    }

    /// Returns the reading at the true time `at`.
    pub fn read(&self, at: u64) -> u64 {
        let next = self.0.partition_point(|stretch| stretch.from <= at);
        self.0[next - 1].read(at)
    }

    /// Returns the first true time at which the clock shows `reading` or more.
    pub fn when(&self, reading: u64) -> u64 {
        let next = self.0.partition_point(|stretch| stretch.reading < reading);
        let stretch = &self.0[next.saturating_sub(1)];
        let ahead = reading.saturating_sub(stretch.reading) * MILLION;
        let at = stretch.from + ahead.div_ceil(stretch.rate());
        // A reading between the end of one stretch and the start of the next belongs to the next.
        self.0.get(next).map_or(at, |after| at.min(after.from))
    }
}

impl Stretch {
    fn read(&self, at: u64) -> u64 {
        self.reading + (at - self.from) * self.rate() / MILLION
    }

    const fn rate(&self) -> u64 {
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
    entropy: Arc<Mutex<Rng>>,
}

impl SimRuntime {
    /// Creates the runtime of `proc`.
    pub fn new(exec: Arc<Exec>, proc: ProcId, clock: Clock, mut rng: Rng) -> Self {
        Self {
            exec,
            proc,
            clock,
            entropy: Arc::new(Mutex::new(rng.fork())),
            rng: Arc::new(Mutex::new(rng)),
        }
    }

    /// Plants a fault: from now on this runtime draws the same entropy as every other with the same
    /// `seed`.
    pub fn repeat_identity(&self, seed: u64) {
        *lock(&self.entropy) = Rng::new(seed);
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

    fn entropy(&self) -> u128 {
        let mut rng = lock(&self.entropy);
        u128::from(rng.next()) << 64 | u128::from(rng.next())
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
        // The deadline is rounded up. At the whole microsecond before it, the timer would fire too
        // early, and not again.
        let until = self.until.since_origin().as_nanos().div_ceil(1000);
        let Some(until) = u64::try_from(until).ok().filter(|&until| until < NEVER) else {
            return Poll::Pending;
        };
        let waker = context.waker();
        let timer = self.timer.as_ref();
        if !timer.is_some_and(|(_, set)| set.will_wake(waker)) {
            self.cancel();
            let at = self.runtime.clock.when(until);
            let key = self.runtime.exec.timer(at, waker.clone());
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

/// Returns a span in microseconds.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

const MILLION: u64 = 1_000_000;

/// A time in microseconds that no run reaches.
const NEVER: u64 = 1_000_000 * MILLION;

/// The time in microseconds until which a clock's rate changes. No run lasts much longer.
const WANDERS: u64 = 150 * MILLION;
