//! Jobs that run once per slot.

pub mod behaviour;
pub mod serve;

use std::convert::Infallible;

use redlatch::once::Slot;

use crate::prelude::*;

/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the start of a day since 1970.
pub fn day(number: u32) -> SystemTime {
    UNIX_EPOCH + DAY * number
}

/// Returns the daily job `x` without retries, asked for the slot of a day. The slot does not depend
/// on the time of the test.
pub fn daily(client: &Client, number: u32) -> Job {
    client.once("x").every(DAY).at(day(number)).retries(0)
}

/// Runs work that succeeds. Returns its result, which is the slot and the token.
pub async fn succeed(job: &Job) -> Once<(Slot, u64), Infallible> {
    let work = async |run: &JobRun| Ok((run.slot().clone(), run.token().as_u64()));
    job.run(work).await.unwrap()
}

/// Runs work that fails.
pub async fn fail(job: &Job) -> Once<(), &'static str> {
    job.run(async |_: &JobRun| Err("no luck")).await.unwrap()
}
