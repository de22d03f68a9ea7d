//! Jobs that run once per slot: runs whose work lasts for a while, one at a time.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{
    Client, Error,
    once::{Job, JobRun, Once},
};
use redlatch_tests::running::RunningJob;

use super::{Bench, Crew, Entry, Kind, Visit, Wanted, any, millis};
use crate::any_guard::AnyGuard;

/// Jobs that run once per slot.
pub(super) struct Jobs;

impl Kind for Jobs {
    fn start(&self, crew: &mut Crew<'_>) {
        crew.repeat(4, round);
    }

    fn visit<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move {
            let job = job(client, name);
            loop {
                let ran = job.run(async |_: &JobRun| Ok::<_, String>(())).await?;
                if let Once::Ran(()) = ran {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }

    fn delete<'a>(&self, client: &'a Client, name: &'a str) -> Visit<'a> {
        Box::pin(async move { client.once(name).reset().await.map(drop) })
    }
}

/// A run, with its name.
struct Run {
    name: String,
    running: RunningJob,
}

impl AnyGuard for Run {
    fn valid(&self) -> bool {
        self.running.is_valid()
    }

    fn parts(&self) -> Vec<(String, u64)> {
        vec![(self.name.clone(), self.running.token())]
    }

    async fn prolong(&self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    async fn give_back(self) -> Result<bool, Error> {
        Ok(matches!(self.running.give_back().await?, Once::Ran(())))
    }
}

/// Returns a job that may run again right after a run.
fn job(client: &Client, name: &str) -> Job {
    let job = client.once(name).gap(Duration::from_millis(1));
    job.retries(u32::MAX)
}

async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "once");
    let client = bench.client(&mut random).clone();
    let lease = millis(&mut random, 1_000..3_000);
    let job = job(&client, &name).lease(lease);
    let what = Wanted::of("once", &name);
    let running = RunningJob::begin_in_time(&client, &job);
    let Some((asked, running)) = bench.acquire(&mut random, what, running).await else {
        return;
    };
    let entry = Entry::exclusive("once");
    let run = Run { name, running };
    bench.hold(&mut random, entry, asked, run).await;
}
