//! How long the machine did not let this process run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

/// Watches how late timers of this runtime are. What is promised about time is promised to a
/// process that runs: a test that compares times adds what this saw.
#[derive(Debug)]
pub struct StallWatch {
    worst: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl StallWatch {
    /// Starts to watch the tokio runtime this is called in.
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
