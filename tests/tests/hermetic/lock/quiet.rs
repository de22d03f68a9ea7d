//! What a pair of acquisition and release wakes besides who asked.

use std::{collections::BTreeMap, future::poll_fn};

use tokio::task::yield_now;

use crate::{prelude::*, spawning::client_with};

/// How often each of the client's tasks has run.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<&'static str, u32>>>);

impl Runs {
    fn of(&self, task: &str) -> u32 {
        self.0.lock().unwrap()[task]
    }
}

async fn client() -> (Backend, Runs, Client) {
    let (backend, runs) = (Backend::embedded(), Runs::default());
    let all = runs.clone();
    let client = client_with(&backend, move |inner, task, mut future| {
        let runs = all.clone();
        let counted = poll_fn(move |context| {
            *runs.0.lock().unwrap().entry(task).or_default() += 1;
            future.as_mut().poll(context)
        });
        inner.spawn(task, Box::pin(counted));
    });
    let client = client.await;
    (backend, runs, client)
}

#[tokio::test(start_paused = true)]
async fn uncontended_pairs_do_not_wake_background_tasks() {
    let (backend, counted, client) = client().await;
    let lock = client.lock("x");
    lock.lock().await.unwrap().release().await.unwrap();
    backend.pass(Duration::from_millis(1)).await;
    let watched = ["watchdog", "alarms"];
    let before = watched.map(|task| counted.of(task));
    for _ in 0..200 {
        lock.lock().await.unwrap().release().await.unwrap();
        // Nothing is held and nothing is asked for now, and whoever was woken runs.
        for _ in 0..8 {
            yield_now().await;
        }
    }
    let runs = watched.map(|task| counted.of(task));
    // Each is woken when something is due sooner than all before, which becomes rare: some ten of
    // the first two hundred, by the random part of what is due.
    for (task, (before, after)) in watched.iter().zip(before.into_iter().zip(runs)) {
        assert!(after - before <= 20, "{task} ran {} times", after - before);
    }
}

#[tokio::test(start_paused = true)]
async fn hold_is_renewed_although_the_watchdog_sleeps_for_a_released_one() {
    let (backend, counted, client) = client().await;
    for _ in 0..50 {
        let gone = client.lock("gone").lock().await.unwrap();
        gone.release().await.unwrap();
    }
    let guard = client.lock("kept").lock().await.unwrap();
    let before = counted.of("watchdog");
    backend.pass(Duration::from_secs(120)).await;
    guard.check().unwrap();
    assert!(guard.remaining() > Duration::from_secs(15));
    let ran = counted.of("watchdog") - before;
    assert!((12..60).contains(&ran), "{ran} times for twelve renewals");
    guard.release().await.unwrap();
}
