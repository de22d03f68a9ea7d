//! Jobs that run once per slot: runs whose work lasts for a while, one at a time.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{
    Client, Error,
    once::{Job, JobRun, Once},
};
use redlatch_tests::running::RunningJob;

use super::{Bench, Wanted, any, millis};

/// Runs a job as soon as its slot is open.
pub(super) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    let job = job(client, name);
    loop {
        let ran = job.run(async |_: &JobRun| Ok::<_, String>(())).await?;
        if let Once::Ran(()) = ran {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns a job that may run again right after a run.
fn job(client: &Client, name: &str) -> Job {
    let job = client.once(name).gap(Duration::from_millis(1));
    job.retries(u32::MAX)
}

pub(super) async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "once");
    let client = bench.client(&mut random).clone();
    let lease = millis(&mut random, 1_000..3_000);
    let job = job(&client, &name).lease(lease);
    let what = Wanted::of("once", &name);
    let running = RunningJob::begin_in_time(&client, &job);
    let given = bench.acquire(&mut random, what, running).await;
    if let Some((hold, running)) = given {
        bench.keep(&mut random, hold, Box::new(running)).await;
    }
}
