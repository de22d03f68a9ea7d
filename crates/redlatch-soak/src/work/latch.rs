//! Latches that are set, counted down, waited for and deleted, in rounds.

use std::{
    future::{Future, IntoFuture},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use redlatch::{Client, Error, ErrorKind};
use tokio::time::timeout;

use super::{Bench, Crew, PATIENCE, Visit, millis};
use crate::{
    clock::now,
    names,
    record::{Record, Round},
};

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
pub(super) fn visit<'a>(client: &'a Client, name: &'a str) -> Visit<'a> {
    Box::pin(async move {
        let latch = client.count_down_latch(name);
        latch.delete().await?;
        latch.try_set_count(1).ttl(Duration::from_secs(60)).await?;
        latch.count_down_and_wait(1).await
    })
}

async fn round(bench: &Bench, name: &str, random: &mut Rng) {
    let from = now();
    let count = random.u32(2..6);
    let latch = bench.client(random).count_down_latch(name);
    let set = latch.try_set_count(count).ttl(Duration::from_secs(60));
    if answer(bench, set.into_future()).await == Some(true) {
        let begun = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..3)
            .map(|_| spawn_waiter(bench, name, count, &begun, random))
            .collect();
        let first = now();
        let counters: Vec<_> = (0..count)
            .map(|_| spawn_counter(bench, name, &begun, random))
            .collect();
        let mut counted = Vec::new();
        for counter in counters {
            counted.extend(counter.await.ok().flatten());
        }
        let mut seen = Vec::new();
        for waiter in waiters {
            seen.extend(waiter.await.ok());
        }
        let passed: Vec<_> = seen.iter().filter_map(|seen| seen.open()).collect();
        let stuck = seen.iter().filter(|seen| matches!(seen, Seen::Shut));
        let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        bench.history.add(Record::Round(Round {
            name: name.to_owned(),
            from,
            until: now(),
            count,
            begun: passed.iter().map(|open| open.0).min().unwrap_or(count),
            counted: number(counted.len()),
            first,
            last: counted.into_iter().max().unwrap_or(0),
            opened: passed.iter().map(|open| open.1).min().unwrap_or(0),
            passed: number(passed.len()),
            stuck: number(stuck.count()),
        }));
    }
    answer(bench, latch.delete()).await;
}

/// The result that a waiter received.
enum Seen {
    /// The number of count-downs that had begun by then, and the time.
    Open(u32, u64),
    Shut,
    Nothing,
}

impl Seen {
    const fn open(&self) -> Option<(u32, u64)> {
        match self {
            Self::Open(begun, at) => Some((*begun, *at)),
            Self::Shut | Self::Nothing => None,
        }
    }
}

fn spawn_waiter(
    bench: &Bench,
    name: &str,
    count: u32,
    begun: &Arc<AtomicU32>,
    random: &mut Rng,
) -> tokio::task::JoinHandle<Seen> {
    let latch = bench.client(random).count_down_latch(name);
    let (bench, begun, pause) = (bench.clone(), Arc::clone(begun), millis(random, 0..40));
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        match latch.wait_for(PATIENCE).await {
            Ok(true) => Seen::Open(begun.load(Ordering::SeqCst), now()),
            Ok(false) if begun.load(Ordering::SeqCst) >= count => Seen::Shut,
            Ok(false) => Seen::Nothing,
            Err(error) => {
                forgive(&bench, Err::<(), _>(error));
                Seen::Nothing
            }
        }
    })
}

fn spawn_counter(
    bench: &Bench,
    name: &str,
    begun: &Arc<AtomicU32>,
    random: &mut Rng,
) -> tokio::task::JoinHandle<Option<u64>> {
    let latch = bench.client(random).count_down_latch(name);
    let (bench, begun, pause) = (bench.clone(), Arc::clone(begun), millis(random, 0..40));
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        begun.fetch_add(1, Ordering::SeqCst);
        let counted = answer(&bench, latch.count_down(1)).await;
        counted.map(|_| now())
    })
}

async fn answer<T>(bench: &Bench, call: impl Future<Output = Result<T, Error>>) -> Option<T> {
    match timeout(2 * PATIENCE, call).await {
        Ok(outcome) => forgive(bench, outcome),
        Err(_) => {
            let what = format!("a call of a latch had not ended after {:?}", 2 * PATIENCE);
            bench.history.violated(what);
            None
        }
    }
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
