//! Running each slot when it begins.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use redlatch::{
    Client,
    once::{Job, JobRun},
};
use tokio::task::JoinHandle;

use crate::prelude::*;

behaviours! {
    Cluster:
        replicas_run_each_slot_once;
    Single:
        failed_slot_is_tried_again_by_any_replica;
}

/// The slots that ran, with their attempts and outcomes.
type Log = Arc<Mutex<Vec<(SystemTime, u32, bool)>>>;

/// Serves `job` in a task. The attempts that `fails` tells end with an error.
fn serving(job: Job, log: &Log, fails: fn(u32) -> bool) -> JoinHandle<redlatch::Error> {
    let log = Arc::clone(log);
    tokio::spawn(async move {
        let work = async move |run: &JobRun| {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let failed = fails(run.attempt());
            let slot = run.slot().instant().unwrap();
            log.lock().unwrap().push((slot, run.attempt(), !failed));
            if failed { Err("no luck") } else { Ok(()) }
        };
        match job.serve(work).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    })
}

async fn stop(tasks: Vec<JoinHandle<redlatch::Error>>, clients: &[Client]) {
    for task in tasks {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    for client in clients {
        assert_tables_empty(client).await;
    }
}

async fn until(log: &Log, successes: usize) -> Vec<(SystemTime, u32, bool)> {
    wait_for("the slots to run", async || {
        log.lock().unwrap().iter().filter(|run| run.2).count() >= successes
    })
    .await;
    log.lock().unwrap().clone()
}

async fn replicas_run_each_slot_once(backend: &Backend) {
    let clients: [_; 5] = clients(backend).await;
    let log = Log::default();
    let job = |client: &Client| client.once("x").every(Duration::from_millis(500));
    let tasks = clients
        .iter()
        .map(|client| serving(job(client), &log, |_| false));
    let tasks = tasks.collect();
    let ran = until(&log, 6).await;
    stop(tasks, &clients).await;
    assert!(ran.is_sorted_by(|one, other| one.0 < other.0), "{ran:?}");
    assert!(ran.iter().all(|run| run.1 == 1), "{ran:?}");
}

async fn failed_slot_is_tried_again_by_any_replica(backend: &Backend) {
    let clients: [_; 3] = clients(backend).await;
    let log = Log::default();
    let job = |client: &Client| {
        let job = client.once("x").gap(Duration::from_millis(100));
        job.retries(2).retry_pause(Duration::from_millis(50))
    };
    let fails = |attempt| attempt < 3;
    let tasks = clients
        .iter()
        .map(|client| serving(job(client), &log, fails));
    let tasks = tasks.collect();
    let ran = until(&log, 2).await;
    stop(tasks, &clients).await;
    let attempts: Vec<_> = ran.iter().take(6).map(|run| run.1).collect();
    assert_eq!(attempts, [1, 2, 3, 1, 2, 3], "{ran:?}");
    assert!(ran[0].0 == ran[2].0 && ran[3].0 == ran[5].0, "{ran:?}");
    let gap = ran[3].0.duration_since(ran[2].0).unwrap();
    assert!(gap >= 100 * MS, "{ran:?}");
}
