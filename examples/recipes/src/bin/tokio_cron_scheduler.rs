//! `tokio-cron-scheduler` fires, and a job of redlatch runs each slot once.
//!
//! The scheduler does not tell for which instant it fires. It fires when its own clock has reached
//! the instant, and at most about a second later. So that clock, read first of all, is in the slot
//! that is meant, as long as expression and period of the job say the same.

use std::time::SystemTime;

use redlatch_recipes::{EXPRESSION, Replica, Result, check};
use tokio_cron_scheduler::{Job, JobScheduler};

#[tokio::main]
async fn main() -> Result {
    check(schedule).await
}

async fn schedule(replica: Replica) -> Result<Scheduler> {
    let scheduler = JobScheduler::new().await?;
    let job = Job::new_async(EXPRESSION, move |_, _| {
        // Before anything is awaited.
        let instant = SystemTime::now();
        let replica = replica.clone();
        Box::pin(async move { replica.fire(instant).await })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(Scheduler { _inner: scheduler })
}

/// A scheduler that has started.
struct Scheduler {
    _inner: JobScheduler,
}
