//! Runs rounds of a library in this process.

use std::{sync::Arc, thread, time::Duration};

use tokio::{
    sync::Barrier,
    task::{JoinSet, spawn_blocking},
    time::{Instant, timeout_at},
};

use super::{Failure, Lock, Session};
use crate::{
    clock,
    job::{Done, Held, Job, Names, PAUSE, TaskDone, Until},
};

/// Starts the tasks together and returns when all have ended.
pub(crate) async fn drive(session: &Session, job: &Job) -> Result<Done, Failure> {
    let gate = Arc::new(Barrier::new(job.tasks + 1));
    let mut tasks = JoinSet::new();
    for number in 0..job.tasks {
        let lock = session.lock(&job.name(number));
        let (gate, names, until) = (Arc::clone(&gate), job.names, job.until);
        tasks.spawn(async move {
            gate.wait().await;
            let mut done = match names {
                Names::Own | Names::Mixed => alone(lock, until, Duration::ZERO).await?,
                Names::Beside if number == 0 => alone(lock, until, PAUSE).await?,
                Names::Beside => alone(lock, until, Duration::ZERO).await?,
                Names::One { hold } | Names::Pool { hold } => {
                    shared(lock, u32::try_from(number)?, until, hold).await?
                }
            };
            // Busy tasks do not count, and hand-offs follow from the holds.
            if names == Names::Beside && number > 0 || matches!(names, Names::One { .. }) {
                done.latencies.clear();
            }
            Ok::<_, Failure>(done)
        });
    }
    gate.wait().await;
    let began = Instant::now();
    let mut done = Done::default();
    while let Some(task) = tasks.join_next().await {
        done.tasks.push(task??);
    }
    done.wall = began.elapsed();
    Ok(done)
}

/// Tells whether a task goes on that began then and has done so many pairs.
fn goes_on(until: Until, began: Instant, pairs: u64) -> bool {
    match until {
        Until::Time(time) => began.elapsed() < time,
        Until::Pairs(enough) => pairs < enough,
    }
}

/// Runs a task on a name of its own. It rests for `pause` before each pair.
async fn alone(
    mut lock: Box<dyn Lock>,
    until: Until,
    pause: Duration,
) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    let began = Instant::now();
    let mut before = began;
    while goes_on(until, began, done.pairs) {
        if !pause.is_zero() {
            rest(pause).await?;
            before = Instant::now();
        }
        lock.acquire().await?;
        lock.release().await?;
        let now = Instant::now();
        done.latencies.push(nanos(now - before));
        done.pairs += 1;
        before = now;
    }
    Ok(done)
}

/// Runs a task on a name that it shares with others, and measures how long it waits. A task that
/// waits when the time is up leaves without the name.
async fn shared(
    mut lock: Box<dyn Lock>,
    task: u32,
    until: Until,
    hold: Duration,
) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    let began = Instant::now();
    while goes_on(until, began, done.pairs) {
        let called = clock::monotonic();
        match until {
            Until::Time(time) => match timeout_at(began + time, lock.acquire()).await {
                Ok(acquired) => acquired?,
                Err(_) => break,
            },
            Until::Pairs(_) => lock.acquire().await?,
        }
        let got = clock::monotonic();
        rest(hold).await?;
        let left = clock::monotonic();
        lock.release().await?;
        done.releases.push(clock::monotonic() - left);
        done.latencies.push(got - called);
        done.holds.push(Held { got, left, task });
        done.pairs += 1;
    }
    Ok(done)
}

/// Waits as a working holder does. A timer of the runtime would end up to one ms late. A thread's
/// sleep ends within 0.1 ms and costs the runtime no more.
pub(super) async fn rest(hold: Duration) -> Result<(), Failure> {
    if !hold.is_zero() {
        spawn_blocking(move || thread::sleep(hold)).await?;
    }
    Ok(())
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
