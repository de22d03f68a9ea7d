//! Measures how long the machine did not schedule this process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

/// Measures the lateness of this runtime's timers. Promises about time hold for a running process:
/// a test that compares times adds this lateness.
#[derive(Debug)]
pub struct StallWatch {
    worst: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl StallWatch {
    /// Starts to measure the current tokio runtime.
    pub fn start() -> Self {
        let worst = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn({
            let worst = Arc::clone(&worst);
            async move {
                loop {
                    let before = Instant::now();
                    tokio::time::sleep(TICK).await;
                    let late = before.elapsed().saturating_sub(TICK);
                    let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
                    worst.fetch_max(micros, Ordering::Relaxed);
                }
            }
        });
        Self { worst, task }
    }

    /// Returns the longest time by which a timer was late.
    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst.load(Ordering::Relaxed))
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const TICK: Duration = Duration::from_millis(1);
