//! One hold, many threads: on a real clock and real threads, since nothing else shows a race.

use redlatch::runtime::{Address, Login, Runtime, TokioRuntime};
use redlatch_embedded::{EmbeddedServer, EmbeddedTransport};

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_acquisitions_keep_the_tables_consistent() {
    let client = connect().await;
    let owner = client.owner();
    let threads = spawned(8, |seed| {
        let (client, owner) = (client.clone(), owner.clone());
        async move {
            let mut rng = fastrand::Rng::with_seed(seed as u64);
            let lock = client.lock("x");
            for _ in 0..250 {
                let request = lock.lock().owner(&owner);
                let guard = match rng.bool() {
                    true => request.renewed_lease(Duration::from_secs(1)).await,
                    false => request.await,
                };
                let guard = guard.unwrap();
                let tables = client.tables();
                assert_eq!((tables.holds, tables.renewals), (1, 1), "{tables:?}");
                if rng.bool() {
                    tokio::task::yield_now().await;
                }
                guard.check().unwrap();
                let tables = client.tables();
                assert_eq!((tables.holds, tables.renewals), (1, 1), "{tables:?}");
                match rng.bool() {
                    true => drop(guard),
                    false => assert!(guard.release().await.unwrap().is_clean()),
                }
            }
            lock.lock().owner(&owner).await.unwrap()
        }
    });
    let mut guards = finished(threads).await;
    client.settled().await;
    let lock = client.lock("x");
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 8);
    guards.truncate(1);
    let last = guards.pop().unwrap();
    client.settled().await;
    assert_eq!(last.hold_count(), 1);
    assert_eq!((client.tables().holds, client.tables().renewals), (1, 1));
    last.check().unwrap();
    assert!(last.release().await.unwrap().is_clean());
    assert_tables_empty(&client).await;
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn remaining_guard_is_renewed_after_concurrent_releases() {
    let client = connect().await;
    let rounds = spawned(40, |i| {
        let client = client.clone();
        async move {
            let (lock, owner) = (client.lock(format!("n{i}")), client.owner());
            let enter = || lock.lock().owner(&owner).renewed_lease(SECOND);
            let mut stays = enter().await.unwrap();
            for _ in 0..20 {
                let enters = tokio::spawn(enter().into_future());
                tokio::task::yield_now().await;
                drop(stays);
                stays = enters.await.unwrap().unwrap();
            }
            stays
        }
    });
    let guards = finished(rounds).await;
    client.settled().await;
    assert_eq!((client.tables().holds, client.tables().renewals), (40, 40));
    // A renewal is due after a third of the lease, and the lease itself is over in the end.
    sleep(Duration::from_millis(1_300)).await;
    for guard in &guards {
        guard.check().unwrap();
        let lock = client.lock(guard.name());
        assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 1);
    }
    drop(guards);
    assert_tables_empty(&client).await;
}

/// Connects a client whose time is the real one to a server of its own.
async fn connect() -> Client {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::current().unwrap());
    let server = EmbeddedServer::new(Arc::clone(&runtime));
    let transport = EmbeddedTransport::new().serve("test", server);
    let address = Address::Embedded("test".to_owned());
    let builder = redlatch::ClientBuilder::at(address, Login::default());
    let builder = builder.transport(Arc::new(transport)).runtime(runtime);
    builder.connect().await.unwrap()
}
