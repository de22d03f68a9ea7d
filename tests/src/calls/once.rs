//! Jobs that run once per slot.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{Client, once::JobRun};

use super::{Call, Kind, Wait, calls};

/// Jobs that run once per slot.
#[derive(Debug)]
pub(super) struct Jobs;

#[async_trait]
impl Kind for Jobs {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let day = Duration::from_secs(24 * 60 * 60);
        let job = clients[0].once("once").every(day).retries(100);
        calls! {
            "run": |job| job.run(async |_: &JobRun| Ok::<_, String>(()));
            "last": |job| job.last();
            "holder": |job| job.holder();
            "reset": |job| job.reset();
        }
    }

    /// No call waits for another run; `serve` looks again by itself.
    async fn waits(&self, _: &[Client], _: &[Client]) -> Vec<Wait> {
        Vec::new()
    }
}
