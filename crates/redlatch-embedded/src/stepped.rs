//! A runtime with tokio's clock, which a paused test steps.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use redlatch_core::{
    Moment,
    runtime::{BoxFuture, Runtime},
};
use tokio::time::Instant;

/// Clock and timers of the current tokio runtime. In a test with `start_paused`, time passes only
/// while all tasks wait.
///
/// Give it to an [`EmbeddedServer`](crate::EmbeddedServer) and to its clients: waits and leases of
/// any length then take a test no time. Its random numbers are not random. They differ between
/// instances and repeat from run to run.
#[derive(Debug)]
pub struct SteppedRuntime {
    origin: Instant,
    random: AtomicU64,
}

impl SteppedRuntime {
    /// Starts a clock inside of a tokio runtime.
    ///
    /// # Panics
    ///
    /// Its timers and tasks panic outside of a tokio runtime.
    #[expect(
        clippy::disallowed_methods,
        reason = "it is a runtime: tokio's clock is what it is for"
    )]
    pub fn new() -> Self {
        static SEEDS: AtomicU64 = AtomicU64::new(1);
        let seed = SEEDS.fetch_add(1, Ordering::Relaxed);
        Self {
            origin: Instant::now(),
            random: AtomicU64::new(seed.wrapping_mul(GOLDEN)),
        }
    }
}

impl Default for SteppedRuntime {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is a runtime: tokio's clock, timers and tasks are what it is for"
)]
impl Runtime for SteppedRuntime {
    fn now(&self) -> Moment {
        Moment::from_origin(Duration::from_secs(1) + self.origin.elapsed())
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        // A deadline of "never" is beyond the range of tokio's timers.
        let rest = until
            .since(self.now())
            .min(Duration::from_secs(10 * 365 * 86_400));
        Box::pin(tokio::time::sleep(rest))
    }

    fn spawn(&self, _task: &'static str, future: BoxFuture<()>) {
        tokio::spawn(future);
    }

    fn random(&self) -> u64 {
        // SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
        let mut z = self.random.fetch_add(GOLDEN, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn entropy(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }
}

/// The step of the generator: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
