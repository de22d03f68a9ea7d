//! A runtime with a wrong clock.

use std::{sync::Arc, time::Duration};

use redlatch::runtime::{BoxFuture, Runtime};
use redlatch_core::Moment;

/// A runtime with a clock of another origin and another rate.
#[derive(Debug)]
pub struct SkewedRuntime {
    inner: Arc<dyn Runtime>,
    /// The true clock at the start.
    began: Moment,
    /// This clock at the start.
    origin: Moment,
    rate: f64,
}

impl SkewedRuntime {
    /// Starts a clock of `inner` that shows `origin` and gains `rate` seconds per second. The
    /// correct rate is 1.0.
    pub fn over(inner: Arc<dyn Runtime>, origin: Duration, rate: f64) -> Self {
        Self {
            began: inner.now(),
            origin: Moment::from_origin(origin),
            inner,
            rate,
        }
    }
}

impl Runtime for SkewedRuntime {
    fn now(&self) -> Moment {
        self.origin + self.inner.now().since(self.began).mul_f64(self.rate)
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        // A deadline of "never" is beyond the range of a float division. The added microsecond
        // compensates for rounding.
        let rest = until
            .since(self.origin)
            .min(Duration::from_secs(10 * 365 * 86_400));
        let truly = self.began + rest.div_f64(self.rate) + Duration::from_micros(1);
        self.inner.sleep_until(truly)
    }

    fn spawn(&self, task: &'static str, future: BoxFuture<()>) {
        self.inner.spawn(task, future);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
