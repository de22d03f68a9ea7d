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
            let end = End::of(until);
            match names {
                Names::Own | Names::Mixed => alone(lock, end, Duration::ZERO).await,
                Names::Beside if number == 0 => alone(lock, end, PAUSE).await,
                Names::Beside => {
                    let mut done = alone(lock, end, Duration::ZERO).await?;
                    done.latencies.clear();
                    Ok(done)
                }
                Names::One { hold } => together(lock, u32::try_from(number)?, end, hold).await,
                Names::Pool { hold } => pooled(lock, u32::try_from(number)?, end, hold).await,
            }
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

/// The condition that ends a task.
#[derive(Clone, Copy, Debug)]
enum End {
    At(Instant),
    After(u64),
}

impl End {
    fn of(until: Until) -> Self {
        match until {
            Until::Time(time) => Self::At(Instant::now() + time),
            Until::Pairs(pairs) => Self::After(pairs),
        }
    }

    fn has_come(self, pairs: u64) -> bool {
        match self {
            Self::At(end) => Instant::now() >= end,
            Self::After(enough) => pairs >= enough,
        }
    }
}

/// Runs a task on a name of its own. It rests for `pause` before each pair.
async fn alone(mut lock: Box<dyn Lock>, end: End, pause: Duration) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    let mut before = Instant::now();
    while !end.has_come(done.pairs) {
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

/// Runs a task on a name that it shares with others. A task that waits when the time is up leaves
/// without the name.
async fn together(
    lock: Box<dyn Lock>,
    task: u32,
    end: End,
    hold: Duration,
) -> Result<TaskDone, Failure> {
    let mut done = pooled(lock, task, end, hold).await?;
    done.latencies.clear();
    Ok(done)
}

/// Runs a task on a name that it shares with others, and measures how long it waits.
async fn pooled(
    mut lock: Box<dyn Lock>,
    task: u32,
    end: End,
    hold: Duration,
) -> Result<TaskDone, Failure> {
    let mut done = TaskDone::default();
    while !end.has_come(done.pairs) {
        let called = clock::monotonic();
        match end {
            End::At(end) => match timeout_at(end, lock.acquire()).await {
                Ok(acquired) => acquired?,
                Err(_) => break,
            },
            End::After(_) => lock.acquire().await?,
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
