//! A worker of `apalis` gets the ticks of a cron schedule, and a job of redlatch runs each slot
//! once.
//!
//! The tick has the instant for which it was made.

use std::{
    str::FromStr,
    time::{Duration, UNIX_EPOCH},
};

use apalis::prelude::*;
use apalis_cron::{CronScheduler, Tick};
use cron::Schedule;
use redlatch_recipes::{EXPRESSION, Replica, Result, check};
use tokio::task::JoinHandle;

#[tokio::main]
async fn main() -> Result {
    check(schedule).await
}

async fn schedule(replica: Replica) -> Result<JoinHandle<()>> {
    let schedule = Schedule::from_str(EXPRESSION)?;
    let worker = WorkerBuilder::new("report")
        .backend(CronScheduler::new(schedule))
        .data(replica)
        .build(handle);
    Ok(tokio::spawn(async move {
        if let Err(error) = worker.run().await {
            eprintln!("the worker has ended: {error}");
        }
    }))
}

async fn handle(tick: Tick, replica: Data<Replica>) {
    let instant = UNIX_EPOCH + Duration::from_secs(tick.get_timestamp());
    replica.fire(instant).await;
}
