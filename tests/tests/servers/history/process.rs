//! What a process of a history does.

use std::{env, sync::Arc, time::Duration};

use redlatch::{
    Client, ErrorKind, Term,
    once::{Job, JobRun, Once},
};
use redlatch_tests::fixture::{MS, SECOND};
use tokio::time::sleep;

use super::{
    line::Line,
    poll::{NotingRuntime, noted},
};

/// The time between two slots.
pub(super) const PERIOD: Duration = Duration::from_millis(1_200);

pub(super) const LEASE: Duration = SECOND;

/// The number of permits.
pub(super) const LIMIT: u32 = 8;

/// The names of the job, of the election and of the semaphores.
pub(super) const NAME: &str = "history";

pub(super) const ROLE: &str = "REDLATCH_HISTORY_ROLE";
pub(super) const URL: &str = "REDLATCH_HISTORY_URL";

/// Part of the tests beside it: does something only when they start it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_as_a_process_of_a_history() {
    let (Ok(role), Ok(url)) = (env::var(ROLE), env::var(URL)) else {
        return;
    };
    // The input ends with the test, however that ends.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let client = loop {
        let runtime = Arc::new(NotingRuntime::new());
        match Client::builder(&url).runtime(runtime).connect().await {
            Ok(client) => break client,
            // The server is away just now.
            Err(_) => sleep(100 * MS).await,
        }
    };
    match role.as_str() {
        "server" => noted(serve(&job(&client))).await,
        "caller" => noted(call(&job(&client))).await,
        "permits" | "ids" => use_permits(&client, role == "ids").await,
        "candidate" => noted(campaign(&client)).await,
        role => panic!("nobody knows {role}"),
    }
}

/// The job of a history, as all processes have it. A slot that fails or that is lost runs again,
/// and slots that a failover has delayed are caught up on.
pub(super) fn job(client: &Client) -> Job {
    let job = client.once(NAME).every(PERIOD).lease(LEASE);
    job.catch_up(60).retries(40).retry_pause(100 * MS)
}

/// Serves the job.
async fn serve(job: &Job) {
    match job.serve(work).await {
        Ok(never) => match never {},
        Err(error) => panic!("it serves no more: {error}"),
    }
}

/// Calls the job again and again, and tells of what is on record.
async fn call(job: &Job) {
    loop {
        let work = async |run: &JobRun| work(run).await.map(|()| of_run("recorded", run));
        let pause = match job.run(work).await {
            Ok(Once::Ran(line)) => {
                line.say();
                20 * MS
            }
            Ok(Once::UnderWay(holder)) => holder.remaining.min(50 * MS),
            Ok(_) => 50 * MS,
            Err(error) if error.kind() == ErrorKind::Closed => panic!("it calls no more: {error}"),
            // The server was away, or the slot may be on record. The next call tells.
            Err(_) => 100 * MS,
        };
        sleep(pause).await;
    }
}

fn of_run(what: &str, run: &JobRun) -> Line {
    let slot = run.slot().instant().unwrap();
    let slot = slot.duration_since(std::time::UNIX_EPOCH).unwrap();
    let slot = u64::try_from(slot.as_millis()).unwrap();
    Line::now(what, slot, run.attempt(), run.token().as_u64())
}

/// The work of a run: takes a tenth of a second, and fails at times. It has its effect some time
/// before its end, so that a process may die in between.
async fn work(run: &JobRun) -> Result<(), String> {
    of_run("begins", run).say();
    steps_of(run).await;
    if fails(of_run("", run).slot, run.attempt()) {
        of_run("fails", run).say();
        return Err("it has to fail".to_owned());
    }
    of_run("effects", run).say();
    steps_of(run).await;
    of_run("ends", run).say();
    Ok(())
}

async fn steps_of(run: &JobRun) {
    for _ in 0..5 {
        sleep(10 * MS).await;
        of_run("works", run).say();
    }
}

/// Tells whether an attempt at a slot fails: the first at every fourth, the second at every
/// twelfth.
fn fails(slot: u64, attempt: u32) -> bool {
    let number = slot / u64::try_from(PERIOD.as_millis()).unwrap();
    match attempt {
        1 => number.is_multiple_of(4),
        2 => number.is_multiple_of(12),
        _ => false,
    }
}

/// Takes permits, and works under them for as long as they last, in several tasks.
async fn use_permits(client: &Client, ids: bool) {
    let tasks = (1..=4).map(|n| {
        let client = client.clone();
        tokio::spawn(noted(async move {
            loop {
                let token = fastrand::u64(..);
                let step = || Line::now("works", n.into(), 0, token).say();
                if ids {
                    under_ids(&client, n, step).await;
                } else {
                    let semaphore = client.semaphore(NAME).permits_if_unset(LIMIT);
                    let guard = semaphore
                        .acquire_many(n)
                        .renewed_lease(LEASE)
                        .await
                        .unwrap();
                    for _ in 0..10 * n {
                        sleep(10 * MS).await;
                        if guard.check().is_err() {
                            break;
                        }
                        step();
                    }
                    guard.release().await.unwrap();
                }
            }
        }))
    });
    // The tasks have no end, so this one ends if one of them panics.
    futures_util::future::try_join_all(tasks)
        .await
        .map(drop)
        .unwrap();
}

/// Nobody renews permits with ids, and nothing tells of their end but the clock.
async fn under_ids(client: &Client, n: u32, step: impl Fn()) {
    let permits = client
        .permit_expirable_semaphore(NAME)
        .permits_if_unset(LIMIT);
    let ids = permits.acquire_many(n).lease(LEASE).await.unwrap();
    // Who has waited does not know for how long it has them.
    let mut until = client.now();
    'work: for _ in 0..10 * n {
        if until < client.now() + LEASE / 2 {
            let before = client.now();
            for id in &ids {
                if permits.extend(id, LEASE).await.is_err() {
                    break 'work;
                }
            }
            // The rest is for clocks that differ, and for the step.
            until = before + LEASE * 9 / 10;
        }
        sleep(10 * MS).await;
        if client.now() >= until {
            break;
        }
        step();
    }
    drop(permits.release_all(&ids).await.unwrap());
}

/// Leads whenever it can, and works: itself, and in a task of the term.
async fn campaign(client: &Client) {
    let work = async |term: &Term| {
        let token = term.token().as_u64();
        Line::now("leads", 0, 0, token).say();
        term.spawn(steps("tasks", token));
        steps("works", token).await
    };
    let outcome = client.election(NAME).lease(LEASE).lead(work).await;
    panic!("it campaigns no more: {outcome:?}");
}

async fn steps(what: &'static str, token: u64) {
    loop {
        sleep(5 * MS).await;
        Line::now(what, 0, 0, token).say();
    }
}
