//! Many waits that are given up at once, beside holds that have to be renewed.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use redlatch::{Client, LockGuard};
use redlatch_tests::{backend::Backend, matrix, wait::unique_name};

/// How many waits are given up, and the lease of the holds beside them. The full storm, which the
/// variable asks for, is for measurements by hand: whether it costs a hold depends on the machine.
fn storm() -> (usize, Duration) {
    let told = std::env::var("REDLATCH_STORM").ok();
    let told = told.map(|told| (told.parse().unwrap(), Duration::from_secs(3)));
    told.unwrap_or((2_000, Duration::from_secs(15)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_outlast_a_storm_of_cancelled_waits() {
    matrix::on_every_server(|binary| async move {
        let backend = Backend::real(&binary);
        let client = backend
            .builder()
            .max_waiters(1_000_000)
            .connect()
            .await
            .unwrap();
        let other = backend.client().await;
        let name = unique_name("storm");
        let writer = other.read_write_lock(&name).write().await.unwrap();
        let (waits, lease) = storm();
        let holds = join_all((0..10).map(|n| hold(&client, n, lease))).await;
        let before = resident();
        let begun = tokio::time::Instant::now();
        let lock = client.read_write_lock(&name);
        let alive = Arc::new(AtomicUsize::new(0));
        let under_way = Arc::clone(&alive);
        // They begin within two seconds, and give up after a tenth of one, answered or not.
        let storm = tokio::spawn(async move {
            let begun = tokio::time::Instant::now();
            let mut storm = tokio::task::JoinSet::new();
            for n in 0..waits {
                let at = begun + Duration::from_secs(2) * n as u32 / waits as u32;
                if n % 20 == 0 {
                    tokio::time::sleep_until(at).await;
                }
                let (lock, under_way) = (lock.clone(), Arc::clone(&under_way));
                under_way.fetch_add(1, Ordering::Relaxed);
                storm.spawn(async move {
                    let waited = lock.read().into_future();
                    let waited = tokio::time::timeout(Duration::from_millis(100), waited);
                    // A machine that is too busy may be told so before its time is up.
                    assert!(!matches!(waited.await, Ok(Ok(_))), "nobody is let in");
                    under_way.fetch_sub(1, Ordering::Relaxed);
                });
                while storm.try_join_next().is_some() {}
            }
            storm.join_all().await;
        });
        let mut most = (0, 0);
        let mut most_alive = 0;
        let mut given_up = None;
        while given_up.is_none() || client.tables().pending_releases > 0 {
            most = most.max((client.tables().pending_releases, 0));
            most.1 = most.1.max(resident());
            most_alive = most_alive.max(alive.load(Ordering::Relaxed));
            if storm.is_finished() {
                given_up = given_up.or_else(|| Some(begun.elapsed()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        storm.await.unwrap();
        let given_up = given_up.unwrap();
        println!(
            "{binary}: {waits} given up in {given_up:?}, undone after {:?}; at most {most_alive} under way, {} undos queued; {} kB before, {} kB at most",
            begun.elapsed(),
            most.0,
            before,
            most.1,
        );
        for hold in &holds {
            assert!(hold.check().is_ok(), "{:?}", hold.state());
        }
        drop(writer);
        // Nothing of the storm is in the way.
        let lock = client.read_write_lock(&name);
        assert!(lock.try_write_for(Duration::from_secs(10)).await.unwrap().is_some());
    })
    .await;
}

async fn hold(client: &Client, n: usize, lease: Duration) -> LockGuard {
    let lock = client.lock(unique_name(&format!("hold-{n}")));
    lock.lock().renewed_lease(lease).await.unwrap()
}

/// Returns the memory of this process in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
