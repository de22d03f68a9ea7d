//! A server that is far away: leases that are not long against a round trip.

use redlatch_tests::slow::{FarTransport, far_client};
use tokio::join;

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn lease_slightly_longer_than_a_round_trip_is_granted() {
    for (lease, round_trip) in [(60, 40), (136, 100), (300, 250), (500, 350)] {
        let backend = Backend::embedded();
        let client = far_client(&backend, round_trip * MS / 2).await;
        let start = Instant::now();
        let guard = client.lock("x").lock().lease(lease * MS).await.unwrap();
        guard.check().unwrap();
        // One round trip for the script's digest, one for its text, which is too late, and one that
        // is answered in time.
        let took = start.elapsed();
        assert!(took <= 4 * lease * MS, "{lease} ms took {took:?}");
        drop(guard);
        assert_nothing_left(&backend, &[&client]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lease_shorter_than_a_round_trip_times_out_and_leaves_nothing() {
    let backend = Backend::embedded();
    let client = far_client(&backend, 50 * MS).await;
    let start = Instant::now();
    let request = client.lock("x").try_lock_for(2 * SECOND).lease(100 * MS);
    let result = request.await;
    assert!(matches!(result, Ok(None) | Err(_)), "{result:?}");
    assert!(start.elapsed() <= 2 * SECOND + 5 * MS);
    assert_nothing_left(&backend, &[&client]).await;
}

#[tokio::test(start_paused = true)]
async fn short_extension_over_a_slow_network_succeeds() {
    let backend = Backend::embedded();
    let client = far_client(&backend, 40 * MS).await;
    let guard = client.lock("x").lock().lease(3 * SECOND).await.unwrap();
    guard.extend(60 * MS).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn short_renewed_lease_survives_a_slow_network() {
    let backend = Backend::embedded();
    // Scripts that are not there yet would cost a round trip more.
    let near = backend.client().await.lock("x").lock().await.unwrap();
    near.extend(SECOND).await.unwrap();
    near.release().await.unwrap();
    let client = far_client(&backend, 120 * MS).await;
    let guard = client.lock("x").lock().renewed_lease(SECOND).await.unwrap();
    for _ in 0..40 {
        backend.pass(250 * MS).await;
        guard.check().unwrap();
    }
    guard.release().await.unwrap();
}

/// With `watch_keys`, the key of each new hold is read at once, also while another read is under
/// way.
#[tokio::test(start_paused = true)]
async fn read_of_a_key_does_not_wait_for_another_read() {
    let backend = Backend::embedded();
    backend.preload();
    let far = FarTransport::new(Arc::new(backend.embedded_transport()), 100 * MS);
    let client = backend.builder().transport(Arc::new(far)).watch_keys(true);
    let client = client.connect().await.unwrap();
    let reads = || backend.embedded_server().command_count("HGET");
    let before = reads();
    let lock = async |name: &str, after: u32| {
        backend.pass(after * MS).await;
        client.lock(name).lock().await.unwrap()
    };
    // The first key is read 200 to 400 ms from now. The second read arrives after 350 ms.
    let _guards = join!(lock("a", 0), lock("b", 50));
    backend.pass(150 * MS).await;
    assert_eq!(reads() - before, 2);
}
