//! Data that go, and writes that are paused.

use std::time::Instant;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    next_renewal_reports_an_evicted_hold,
    pause_of_writes_delays_and_loses_nothing,
);

/// With any policy but `noeviction`, a server that is full makes room for others with our holds.
// L14
async fn next_renewal_reports_an_evicted_hold(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    server.config_set("maxmemory-policy", "allkeys-random");
    let client = backend.client().await;
    let lock = client.lock("x").lock().renewed_lease(3 * SECOND);
    let guard = lock.await.unwrap();
    server.config_set("maxmemory", "1");
    wait_for("the hold to be evicted", async || {
        // Refused or not: the server makes room before it says so.
        server.command(&["SET", "filler", "x"]);
        !backend.keys().contains(&key("x"))
    })
    .await;
    server.config_set("maxmemory", "0");
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    server.command(&["DEL", "filler"]).unwrap();
    assert_nothing_left(&backend, &[&client]).await;
}

// L4, L13
async fn pause_of_writes_delays_and_loses_nothing(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().renewed_lease(3 * SECOND).await.unwrap();
    let paused = Instant::now();
    let pause = ["CLIENT", "PAUSE", "1200", "WRITE"];
    server.command(&pause).unwrap();
    let short = b.lock("y").try_lock_for(200 * MS).await.map(drop);
    // No answer is no contention.
    let error = short.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(paused.elapsed() < 1_100 * MS, "{:?}", paused.elapsed());
    let y = b.lock("y").lock().await.unwrap();
    assert!(paused.elapsed() >= 1_100 * MS, "{:?}", paused.elapsed());
    assert_eq!(b.lock("y").hold_count(y.owner()).await.unwrap(), 1);
    y.check().unwrap();
    let until = Instant::now() + 2 * SECOND;
    while Instant::now() < until {
        guard.check().unwrap();
        backend.pass(20 * MS).await;
    }
    drop((guard, y));
    assert_nothing_left(&backend, &[&a, &b]).await;
}
