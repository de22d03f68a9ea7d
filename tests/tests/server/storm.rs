//! Many waits that are given up at once, beside holds that have to be renewed.

use redlatch_tests::matrix;
use tokio::task::JoinSet;

use crate::prelude::*;

const WAITS: u32 = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_outlast_a_storm_of_cancelled_waits() {
    matrix::on_every_server(|binary| async move {
        let backend = Backend::real(&binary);
        let builder = backend.builder().max_waiters(1_000_000);
        let client = builder.connect().await.unwrap();
        let other = backend.client().await;
        let writer = other.read_write_lock("storm").write().await.unwrap();
        let holds = join_all((0..10).map(|n| hold(&client, n))).await;
        let begun = Instant::now();
        tokio::spawn(storm(client.clone())).await.unwrap();
        client.settled().await;
        println!("{binary}: {WAITS} undone after {:?}", begun.elapsed());
        for hold in &holds {
            assert!(hold.check().is_ok(), "{:?}", hold.state());
        }
        drop(writer);
        // Nothing of the storm is in the way.
        let lock = client.read_write_lock("storm");
        assert!(lock.try_write_for(10 * SECOND).await.unwrap().is_some());
    })
    .await;
}

/// Begins waits within two seconds. Each is given up after a tenth of one, answered or not.
async fn storm(client: Client) {
    let lock = client.read_write_lock("storm");
    let begun = Instant::now();
    let mut waits = JoinSet::new();
    for n in 0..WAITS {
        if n % 20 == 0 {
            tokio::time::sleep_until(begun + 2 * SECOND * n / WAITS).await;
        }
        let lock = lock.clone();
        waits.spawn(async move {
            let waited = timeout(100 * MS, lock.read().into_future());
            // A machine that is too busy may be told so before its time is up.
            assert!(!matches!(waited.await, Ok(Ok(_))), "nobody is let in");
        });
    }
    waits.join_all().await;
}

async fn hold(client: &Client, n: usize) -> LockGuard {
    let lock = client.lock(format!("hold-{n}"));
    let lease = Duration::from_secs(15);
    lock.lock().renewed_lease(lease).await.unwrap()
}
