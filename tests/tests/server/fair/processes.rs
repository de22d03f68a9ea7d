//! A hundred waiters, or by night a thousand, in twenty processes, of which some are killed.

use std::{
    collections::BTreeMap,
    env,
    future::IntoFuture,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use redlatch::{Client, FairLock};
use redlatch_tests::{
    backend::Backend,
    server::ServerBinary,
    wait::{GENEROUS, by_night, eventually},
};

redlatch_tests::on_every_server!(waiters_are_served_although_a_third_of_their_processes_are_killed);

/// One grant as a waiter tells it.
#[derive(Debug)]
struct Told {
    owner: String,
    token: u64,
}

/// A process with waiters; killed when this is dropped.
struct Workers(Child);

impl Workers {
    /// Starts this test binary anew, with so many waiters for lock `x` that hold for a moment each.
    fn start(backend: &Backend, waiters: usize, told: &mpsc::Sender<Told>) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "fair::processes::run_as_a_worker_process",
            ])
            .env(WAITERS, waiters.to_string())
            .env(URL, backend.server().url())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = told.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let words: Vec<_> = line.split(' ').collect();
                if let [GRANTED, owner, token] = words[..] {
                    let (owner, token) = (owner.to_owned(), token.parse().unwrap());
                    let _ = told.send(Told { owner, token });
                }
            }
        });
        Self(child)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until so many wait; returns each one's place by its owner.
async fn places(lock: &FairLock, many: u64) -> BTreeMap<String, u64> {
    eventually("everybody to queue", GENEROUS * 4, async || {
        lock.info().await.unwrap().unwrap().waiters == many
    })
    .await;
    let mut waiters = lock.waiters();
    let mut places = BTreeMap::new();
    while let Some(waiter) = waiters.next().await {
        let waiter = waiter.unwrap();
        places.insert(waiter.owner, waiter.position);
    }
    places
}

// L21, L22
async fn waiters_are_served_although_a_third_of_their_processes_are_killed(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let client = backend.client().await;
    let lock = client.fair_lock("x");
    let guard = lock.lock().await.unwrap();
    let (told, grants) = mpsc::channel();
    let each_has = by_night(5, 50);
    let mut processes: Vec<_> = (0..20)
        .map(|_| Workers::start(&backend, each_has, &told))
        .collect();
    drop(told);
    let places = places(&lock, 20 * each_has as u64).await;
    let before = backend.script_calls();
    guard.release().await.unwrap();

    let mut rng = fastrand::Rng::with_seed(u64::from(std::process::id()));
    // Two at once, then one after the other.
    let tenth = each_has / 5;
    let mut kills = [(6, 2), (12, 1), (20, 1), (30, 2)]
        .map(|(at, many)| (at * tenth, many))
        .into_iter()
        .peekable();
    let (mut order, mut gaps) = (Vec::new(), Vec::new());
    let mut last = Instant::now();
    // Ends when every process has gone that still had a waiter.
    while let Ok(grant) = tokio::task::block_in_place(|| grants.recv()) {
        gaps.push(last.elapsed());
        last = Instant::now();
        order.push((grant.token, places[&grant.owner]));
        if kills
            .next_if(|(at, _)| order.len() >= *at)
            .is_some_and(|(_, many)| {
                for _ in 0..many {
                    drop(processes.swap_remove(rng.usize(..processes.len())));
                }
                true
            })
        {
            last = Instant::now();
        }
    }
    let calls = backend.script_calls() - before;
    // What is printed last may be read first.
    order.sort_unstable();
    assert!(
        order.is_sorted_by_key(|(_, place)| *place),
        "grants in order of tickets"
    );
    let alive = each_has * (20 - 6);
    assert!(
        order.len() >= alive,
        "{} of {alive} were served",
        order.len()
    );
    gaps.sort_unstable();
    let each = calls as f64 / order.len() as f64;
    println!(
        "{binary}: {} grants in order of tickets after 6 of 20 processes were killed at 4 moments; {each:.2} commands per grant; gap p50 {:?}, the longest {:?}",
        order.len(),
        gaps[gaps.len() / 2],
        &gaps[gaps.len() - 6..],
    );
    let longest = *gaps.last().unwrap();
    // A holder that dies costs its lease, a dead head behind it its deadline.
    assert!(
        longest < LEASE + Duration::from_secs(5) + GENEROUS / 2,
        "{longest:?}"
    );
    let long = gaps.iter().filter(|gap| **gap > Duration::from_secs(3));
    assert!(long.count() <= 4, "those that die together cost it once");
    assert!(each < 4.0, "{each} commands per grant");
    eventually("the queue to be empty", GENEROUS, async || {
        lock.waiters().next().await.is_none()
    })
    .await;
}

/// Part of the test above: does something only when that one starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn run_as_a_worker_process() {
    let (Ok(waiters), Ok(url)) = (env::var(WAITERS), env::var(URL)) else {
        return;
    };
    let client = Client::connect(&url).await.unwrap();
    let tasks: Vec<_> = (0..waiters.parse().unwrap())
        .map(|_| {
            let waiting = client.fair_lock("x").lock().lease(LEASE).into_future();
            tokio::spawn(async move {
                let guard = waiting.await.unwrap();
                println!("{GRANTED} {} {}", guard.owner(), guard.token());
                tokio::time::sleep(Duration::from_millis(2)).await;
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

const LEASE: Duration = Duration::from_secs(1);
const GRANTED: &str = "granted";
const WAITERS: &str = "REDLATCH_TEST_WAITERS";
const URL: &str = "REDLATCH_TEST_WAITERS_URL";
