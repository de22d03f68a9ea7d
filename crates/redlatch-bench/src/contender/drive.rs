//! Runs rounds of a library in this process.

use std::{sync::Arc, thread, time::Duration};

use tokio::{
    sync::Barrier,
    task::{JoinSet, spawn_blocking},
    time::{Instant, timeout_at},
};

use super::{Failure, Lock, Session};
use crate::{
    clock::{monotonic, nanos},
    job::{Done, Job, Names, PAUSE, TaskDone},
};

/// Starts the tasks together and returns when all have ended.
pub(crate) async fn drive(session: &Session, job: &Job) -> Result<Done, Failure> {
    let gate = Arc::new(Barrier::new(job.tasks + 1));
    let crowd = Arc::new(Barrier::new(job.tasks));
    let mut tasks = JoinSet::new();
    for number in 0..job.tasks {
        let lock = session.lock(&job.name(number));
        let (gate, crowd, job) = (Arc::clone(&gate), Arc::clone(&crowd), job.clone());
        tasks.spawn(async move {
            gate.wait().await;
            let mut done = match job.names {
                Names::Beside if number == 0 => alone(lock, &job, PAUSE).await?,
                Names::Own | Names::Mixed | Names::Beside => {
                    alone(lock, &job, Duration::ZERO).await?
                }
                Names::One | Names::Pool => shared(lock, &job).await?,
                Names::Crowd => together(lock, &job, &crowd).await?,
            };
            // Busy tasks do not count, and hand-offs follow from the holds.
            if job.names == Names::Beside && number > 0 || job.names == Names::One {
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
    done.wall = nanos(began.elapsed());
    Ok(done)
}

/// Runs a task on a name of its own. It rests for `pause` before each pair.
async fn alone(mut lock: Box<dyn Lock>, job: &Job, pause: Duration) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    let began = Instant::now();
    let mut before = began;
    while job.goes_on(began.elapsed(), done.pairs) {
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
async fn shared(mut lock: Box<dyn Lock>, job: &Job) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    let began = Instant::now();
    while job.goes_on(began.elapsed(), done.pairs) {
        let called = monotonic();
        if job.time == 0 {
            lock.acquire().await?;
        } else {
            let end = began + Duration::from_nanos(job.time);
            match timeout_at(end, lock.acquire()).await {
                Ok(acquired) => acquired?,
                Err(_) => break,
            }
        }
        let got = monotonic();
        rest(Duration::from_nanos(job.hold)).await?;
        let left = monotonic();
        lock.release().await?;
        done.releases.push(monotonic() - left);
        done.latencies.push(got - called);
        done.holds.push((got, left));
        done.pairs += 1;
    }
    Ok(done)
}

/// Runs a task of a crowd, which waits until all have the name before it leaves, and until all have
/// left before it comes again. A crowd comes once at least.
async fn together(
    mut lock: Box<dyn Lock>,
    job: &Job,
    crowd: &Barrier,
) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    while done.pairs < job.pairs.max(1) {
        lock.acquire().await?;
        crowd.wait().await;
        lock.release().await?;
        crowd.wait().await;
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
