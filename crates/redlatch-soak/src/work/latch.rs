//! Latches that are set, counted down, waited for and deleted, in rounds.

use std::time::Duration;

use crate::record::{Outcome, Record, Round, Step};
use fastrand::Rng;
use redlatch::{Client, CountDownLatch, Error, ErrorKind};
use tokio::task::JoinHandle;

use super::{Bench, Crew, PATIENCE, millis};
use crate::{clock::now, names};

/// Starts one worker per name: it sets a latch, and other tasks count it down and wait.
pub(super) fn start(crew: &mut Crew<'_>) {
    for at in 0..names::count("latch") {
        let name = names::name("latch", at);
        crew.spawn(|bench, mut random| async move {
            while bench.goes_on() {
                round(&bench, &name, &mut random).await;
                tokio::time::sleep(millis(&mut random, 0..50)).await;
            }
        });
    }
}

/// Sets a new latch, counts it down, and waits for it.
pub(super) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    let latch = client.count_down_latch(name);
    latch.delete().await?;
    latch.try_set_count(1).ttl(Duration::from_secs(60)).await?;
    latch.count_down_and_wait(1).await
}

async fn round(bench: &Bench, name: &str, random: &mut Rng) {
    let from = now();
    let count = random.u32(2..6);
    let latch = bench.client(random).count_down_latch(name);
    let set = latch.try_set_count(count).ttl(Duration::from_secs(60));
    if answer(bench, set.into_future()).await == Some(true) {
        let set = now();
        let waits: Vec<_> = (0..3).map(|_| spawn(bench, name, random, waits)).collect();
        let downs: Vec<_> = (0..count)
            .map(|_| spawn(bench, name, random, counts))
            .collect();
        let downs = all(downs).await;
        let waits = all(waits).await;
        bench.history.add(Record::Round(Round {
            name: name.to_owned(),
            from,
            set,
            until: now(),
            count,
            downs,
            waits,
        }));
    }
    answer(bench, latch.delete()).await;
}

/// Awaits the calls. One that panicked is reported by others.
async fn all(calls: Vec<JoinHandle<Step>>) -> Vec<Step> {
    let mut steps = Vec::new();
    for call in calls {
        steps.extend(call.await.ok());
    }
    steps
}

/// Starts a call that comes a little later.
fn spawn<F>(
    bench: &Bench,
    name: &str,
    random: &mut Rng,
    call: fn(Bench, CountDownLatch) -> F,
) -> JoinHandle<Step>
where
    F: Future<Output = Option<bool>> + Send + 'static,
{
    let latch = bench.client(random).count_down_latch(name);
    let (bench, pause) = (bench.clone(), millis(random, 0..40));
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        let from = now();
        Step::ended(from, call(bench, latch).await)
    })
}

async fn waits(bench: Bench, latch: CountDownLatch) -> Option<bool> {
    forgive(&bench, latch.wait_for(PATIENCE).await)
}

async fn counts(bench: Bench, latch: CountDownLatch) -> Option<bool> {
    answer(&bench, latch.count_down(1)).await.map(|_| true)
}

impl Step {
    /// Returns a call that ends now, with success or without, or with an error.
    fn ended(from: u64, success: Option<bool>) -> Self {
        let outcome = match success {
            Some(true) => Outcome::Ok,
            Some(false) => Outcome::Fail,
            None => Outcome::Info,
        };
        Self {
            from,
            until: now(),
            outcome,
        }
    }
}

async fn answer<T>(bench: &Bench, call: impl Future<Output = Result<T, Error>>) -> Option<T> {
    let outcome = bench.bounded("of a latch", 2 * PATIENCE, call).await;
    outcome.and_then(|outcome| forgive(bench, outcome))
}

/// Ignores the error of a missing latch, because a server may have lost it.
fn forgive<T>(bench: &Bench, outcome: Result<T, Error>) -> Option<T> {
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::NotSet | ErrorKind::Deleted) => {
            bench.history.count("latches gone");
            None
        }
        outcome => bench.history.note(outcome),
    }
}
