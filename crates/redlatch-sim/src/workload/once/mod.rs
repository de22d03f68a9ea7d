//! Jobs that run once per slot. The first name has slots of time, the second keyed slots, and the
//! third a gap between its runs.

mod ledger;

use std::{sync::Arc, time::Duration};

use redlatch_core::{Error, runtime::BoxFuture};
use redlatch_once::{Job, JobRun, Once, Slot};

use self::ledger::{Deed, Ledger};
use super::{
    Life, Worker, Workload, mutants,
    work::{AtWork, Works},
};
use crate::{faults::Fault, names::label, runtime::micros};

/// Jobs that run once per slot, as a workload.
pub(super) static KIND: Workload = Workload {
    lives: |_, plan| Some(RECORDS + plan.lease * 2 + plan.retention + plan.beyond()),
    checkers: |_| vec![Box::<Works>::default(), Box::<Ledger>::default()],
    ..Workload::new(
        "once",
        mutants::JOBS,
        |worker| Box::pin(round(worker)),
        |worker, name| Box::pin(get_on(worker, name)),
    )
};

/// A running call of a job.
type Calling = BoxFuture<Result<Once<Slot, &'static str>, Error>>;

/// The period of the slots of time.
const PERIOD: Duration = Duration::from_secs(2);

/// The gap between two runs.
const GAP: Duration = Duration::from_millis(700);

/// The attempts that a slot has after the first.
const RETRIES: u32 = 2;

/// How long work may take.
const MAX_RUN: Duration = Duration::from_secs(6);

/// How long the server keeps the records of a job at most, in ms: a week, and what it is allowed
/// to take longer.
const RECORDS: u64 = 7 * 24 * 3_600 * 1_000;

/// Runs one round: runs a job whose work takes a while and may fail, or resets the job.
async fn round(worker: &mut Worker) {
    // With little activity, late copies of requests find jobs as their callers saw them.
    let longest: &[u64] = match worker.plan.patience.is_multiple_of(4) {
        true => &[12_000_000],
        false => &[0, 700_000, 100_000, 100_000],
    };
    worker.think_up_to(longest).await;
    let name = worker.rng.index(worker.plan.names);
    if worker.has(Fault::Force) && worker.rng.chance(30) {
        return reset(worker, name).await;
    }
    let job = match name % 3 {
        0 => job(worker, name).every(PERIOD),
        1 => {
            // Workers come together on the keys of a stretch of time.
            let key = worker.exec.now() / 1_500_000;
            job(worker, name).slot(&format!("key {key}"))
        }
        _ => job(worker, name).gap(GAP),
    };
    let fails = worker.rng.below(5) < 2;
    let pauses = (0..worker.rng.between(1, 4))
        .map(|_| worker.draw_work())
        .collect();
    let calling = calling(&worker.life, job, name, pauses, fails);
    // The claim of a slot, the work, and a release.
    let limit = worker.patience() * 2 + micros(MAX_RUN);
    match worker.does(name, "run", limit, calling).await {
        Some(Ok(Once::Ran(slot))) => worker.did(name, &Deed::Ran(slot)),
        Some(Ok(Once::Lost(_))) => worker.did(name, &Deed::Lost),
        _ => {}
    }
    // The only worker of a client has no claim.
    if worker.plan.workers == 1 {
        let client = format!("{}:", worker.client.id().as_str());
        let is_over = |owner: &str| owner.starts_with(&client);
        worker.leaves_nothing(name, 500, is_over).await;
    }
}

/// Runs a slot that is this worker's own.
async fn get_on(worker: &mut Worker, name: usize) -> bool {
    let key = format!("of {}", worker.label);
    let job = job(worker, name).slot(&key);
    let ran = calling(&worker.life, job, name, vec![0], false).await;
    worker.say(|| format!("runs its slot of {}: {ran:?}", label(name)));
    matches!(ran, Ok(Once::Ran(_) | Once::Done(_)))
}

async fn reset(worker: &mut Worker, name: usize) {
    let job = job(worker, name);
    let reset = worker.briefly("reset", job.reset()).await;
    worker.inject(Fault::Force, || {
        format!("resets {}: {reset:?}", label(name))
    });
}

/// Begins a call of a job. Its work pauses for these times in µs, and has an effect after each. In
/// the end it may fail.
fn calling(life: &Arc<Life>, job: Job, name: usize, pauses: Vec<u64>, fails: bool) -> Calling {
    let life = Arc::clone(life);
    let job = job.max_run(MAX_RUN);
    Box::pin(async move {
        let work = async move |run: &JobRun| {
            let token = run.token().as_u64();
            let (slot, attempt) = (run.slot().clone(), run.attempt());
            life.did(name, &AtWork::Begins(token));
            life.did(name, &Deed::Begins(slot.clone(), attempt, token));
            for pause in pauses {
                life.think(pause).await;
                life.did(name, &AtWork::GoesOn(token));
            }
            if fails { Err("no luck") } else { Ok(slot) }
        };
        job.run(work).await
    })
}

fn job(worker: &Worker, name: usize) -> Job {
    let lease = Duration::from_millis(worker.plan.lease.max(1_000));
    Job::new(&worker.client, label(name))
        .retries(RETRIES)
        .lease(lease)
}
