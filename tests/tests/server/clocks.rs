//! Clients whose clocks start elsewhere and run at another rate, within what is promised to be
//! borne.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use redlatch::Client;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left},
    server::ServerBinary,
    skewed::SkewedRuntime,
};

redlatch_tests::on_every_server!(clients_with_wrong_clocks_exclude_each_other);

/// Where a clock stands beside the true one, and how fast it runs.
const CLOCKS: [(i64, f64); 4] = [(-600, 0.99), (-600, 1.01), (600, 0.99), (600, 1.01)];

async fn skewed(backend: &Backend, (shift, rate): (i64, f64)) -> Client {
    let origin = Duration::from_secs(u64::try_from(100_000 + shift).unwrap());
    let runtime = Arc::new(SkewedRuntime::new(origin, rate));
    backend.builder().runtime(runtime).connect().await.unwrap()
}

/// Every hold is left to expire, so that only the clocks keep the holders apart.
// L18
async fn clients_with_wrong_clocks_exclude_each_other(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let beliefs = Mutex::new(Vec::new());
    let clients = join_all(CLOCKS.map(|clock| skewed(&backend, clock))).await;
    let end = Instant::now() + 4 * SECOND;
    join_all(clients.iter().map(|client| async {
        let mut kept = Vec::new();
        while Instant::now() < end {
            let guard = client.lock("x").lock().lease(250 * MS).await.unwrap();
            let from = Instant::now();
            let mut until = from;
            loop {
                let now = Instant::now();
                if guard.check().is_err() {
                    break;
                }
                until = now;
                tokio::time::sleep(MS).await;
            }
            beliefs.lock().unwrap().push((from, until, guard.token()));
            kept.push(guard);
        }
    }))
    .await;
    let mut beliefs = beliefs.into_inner().unwrap();
    beliefs.sort_by_key(|belief| belief.0);
    assert!(beliefs.len() >= 8, "{} holds", beliefs.len());
    let mut closest = Duration::MAX;
    for pair in beliefs.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two holders: {pair:?}");
        assert!(pair[0].2 < pair[1].2, "the fence rises");
        closest = closest.min(pair[1].0 - pair[0].1);
    }
    println!(
        "{binary}: {} holds, never closer than {closest:?}",
        beliefs.len()
    );
    assert_nothing_left(&backend, &clients.iter().collect::<Vec<_>>()).await;
}
