//! Running each slot when it begins.

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
fn serving(job: Job, log: &Log, fails: fn(u32) -> bool) -> JoinHandle<Error> {
    let log = Arc::clone(log);
    tokio::spawn(async move {
        let work = async move |run: &JobRun| {
            sleep(Duration::from_millis(20)).await;
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

/// Serves a job of each client until so many runs were successes. Returns what has run until then.
async fn served(
    successes: usize,
    clients: &[Client],
    job: fn(&Client) -> Job,
    fails: fn(u32) -> bool,
) -> Vec<(SystemTime, u32, bool)> {
    let log = Log::default();
    let serve = |client| serving(job(client), &log, fails);
    let tasks: Vec<_> = clients.iter().map(serve).collect();
    let enough = async || log.lock().unwrap().iter().filter(|run| run.2).count() >= successes;
    wait_for("the slots to run", enough).await;
    let ran = log.lock().unwrap().clone();
    for task in tasks {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    ran
}

async fn replicas_run_each_slot_once(clients: [Client; 5]) {
    let job = |client: &Client| client.once("x").every(Duration::from_millis(500));
    let ran = served(6, &clients, job, |_| false).await;
    assert!(ran.is_sorted_by(|one, other| one.0 < other.0), "{ran:?}");
    assert!(ran.iter().all(|run| run.1 == 1), "{ran:?}");
}

async fn failed_slot_is_tried_again_by_any_replica(clients: [Client; 3]) {
    let job = |client: &Client| {
        let job = client.once("x").gap(Duration::from_millis(100));
        job.retries(2).retry_pause(Duration::from_millis(50))
    };
    let ran = served(2, &clients, job, |attempt| attempt < 3).await;
    let attempts: Vec<_> = ran.iter().take(6).map(|run| run.1).collect();
    assert_eq!(attempts, [1, 2, 3, 1, 2, 3], "{ran:?}");
    assert!(ran[0].0 == ran[2].0 && ran[3].0 == ran[5].0, "{ran:?}");
    let gap = ran[3].0.duration_since(ran[2].0).unwrap();
    assert!(gap >= 100 * MS, "{ran:?}");
}
