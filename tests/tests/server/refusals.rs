//! Answers that mean "not now": the server loads, is busy, is a replica, cannot save, or misses its
//! replicas.

use std::{thread, time::Instant};

use crate::prelude::*;

redlatch_tests::on_every_server!(
    a_server_short_of_replicas_refuses_in_time,
    busy_server_is_retried_with_pauses,
    loading_server_is_retried_with_pauses,
    replica_is_retried_with_pauses,
    replica_without_its_master_is_retried_with_pauses,
    server_that_cannot_save_is_retried_with_pauses,
);

// L45
async fn a_server_short_of_replicas_refuses_in_time(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let builder = backend.builder().patience(400 * MS);
    let client = builder.connect().await.unwrap();
    let short = client.lock("short").lock().renewed_lease(2 * SECOND);
    let short = short.await.unwrap();
    let dropped = client.lock("dropped").lock().await.unwrap();
    let released = client.lock("released").lock().await.unwrap();
    let before = Instant::now();
    server.config_set("min-replicas-to-write", "1");
    // The time of both may be up just after their last request was sent.
    let is_refusal = |error: Error| {
        [ErrorKind::NotEnoughReplicas, ErrorKind::OutcomeUnknown].contains(&error.kind())
    };
    let refused = client.lock("free").lock().await.map(drop);
    assert!(is_refusal(refused.unwrap_err()));
    assert!(before.elapsed() >= 390 * MS && before.elapsed() < 10 * SECOND);
    let refused = client.lock("free").try_lock_for(100 * MS).await;
    assert!(is_refusal(refused.unwrap_err()));
    let refused = released.release().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotEnoughReplicas);
    drop(dropped);
    let in_doubt = async || short.state() == HoldState::Unknown;
    wait_for("the hold to be in doubt", in_doubt).await;
    assert_eq!(short.lost().await, LossCause::Unreachable);
    assert!(before.elapsed() < 3 * SECOND + 10 * SECOND);
    let pending = client.tables().pending_releases;
    assert!(pending >= 2, "releases go on in the background");
    assert!(client.lock("dropped").is_locked().await.unwrap());
    server.config_set("min-replicas-to-write", "0");
    drop(short);
    client.settled().await;
    for name in ["dropped", "released", "free", "short"] {
        assert!(!client.lock(name).is_locked().await.unwrap(), "{name}");
    }
    assert_nothing_left(&backend, &[&client]).await;
}

// L45
async fn busy_server_is_retried_with_pauses(binary: ServerBinary) {
    let options = ServerOptions::new().config("lua-time-limit 50");
    let backend = Backend::Real(Server::start(&binary, options));
    let address = backend.server().address();
    asked_with_pauses(
        &backend,
        |_| {
            thread::spawn(move || {
                let mut connection = Connection::open(address, GENEROUS).unwrap();
                let script = ["EVAL", "while true do end", "0"];
                let killed = connection.command(&script).unwrap();
                assert!(killed.error().is_some());
            });
        },
        |server| drop(server.command(&["SCRIPT", "KILL"]).unwrap()),
        "BUSY",
    )
    .await;
}

// L45
async fn loading_server_is_retried_with_pauses(binary: ServerBinary) {
    // A server looks up from loading every 2 MB.
    let options = ServerOptions::new().config("rdbcompression no");
    let backend = Backend::Real(Server::start(&binary, options));
    let address = backend.server().address();
    asked_with_pauses(
        &backend,
        |server| {
            server
                .command(&["DEBUG", "POPULATE", "2000", "filler", "10000"])
                .unwrap();
            server.config_set("key-load-delay", "1000");
            thread::spawn(move || {
                let mut connection = Connection::open(address, GENEROUS).unwrap();
                connection.command(&["DEBUG", "RELOAD"]).unwrap().unwrap();
            });
        },
        |server| {
            // Two seconds, more where the machine's timers are coarse.
            let loaded = || server.command(&["DBSIZE"]).error().is_none().then_some(());
            eventually_blocking("the data to be loaded", GENEROUS, loaded);
            let sweep = "for i = 0, 1999 do redis.call('DEL', 'filler:' .. i) end";
            server.command(&["EVAL", sweep, "0"]).unwrap();
        },
        "LOADING",
    )
    .await;
}

// L45
async fn replica_is_retried_with_pauses(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    asked_with_pauses(&backend, become_replica, become_master, "READONLY").await;
}

// L45
async fn replica_without_its_master_is_retried_with_pauses(binary: ServerBinary) {
    let options = ServerOptions::new().config("replica-serve-stale-data no");
    let backend = Backend::Real(Server::start(&binary, options));
    asked_with_pauses(&backend, become_replica, become_master, "MASTERDOWN").await;
}

// L45
async fn server_that_cannot_save_is_retried_with_pauses(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    asked_with_pauses(
        &backend,
        |server| {
            std::fs::remove_dir_all(server.dir()).unwrap();
            server.config_set("save", "3600 1");
            server.command(&["BGSAVE"]).unwrap();
            eventually_blocking("the save to fail", GENEROUS, || {
                (server.info("persistence")["rdb_last_bgsave_status"] == "err").then_some(())
            });
        },
        |server| server.config_set("stop-writes-on-bgsave-error", "no"),
        "MISCONF",
    )
    .await;
}

/// Nobody listens on port 1, so the link to the master never comes up.
fn become_replica(server: &Server) {
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
}

fn become_master(server: &Server) {
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
}

/// While the server answers `code`, acquirers pause between their tries and holds stay; once it
/// does not, they are served.
async fn asked_with_pauses(
    backend: &Backend,
    start: impl FnOnce(&Server),
    end: impl FnOnce(&Server),
    code: &str,
) {
    let server = backend.server();
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    let held = client.lock("held").lock().renewed_lease(20 * SECOND);
    let guard = held.await.unwrap();
    start(server);
    wait_for("the trouble", async || {
        let script = "return redis.call('SET', KEYS[1], '1')";
        let reply = server.command(&["EVAL", script, "1", "probe"]);
        reply.error().is_some_and(|error| error.contains(code))
    })
    .await;
    let (began, asked) = (Instant::now(), proxy.requests());
    let connections = proxy.connections();
    let waiter = waiting(client.lock("free"));
    let short = client.lock("short").try_lock_for(300 * MS).await;
    let error = short.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    backend.pass(SECOND.saturating_sub(began.elapsed())).await;
    assert!(!waiter.is_finished(), "{code}");
    let asked = proxy.requests() - asked;
    assert!(asked < 60, "{asked} requests in {:?}", began.elapsed());
    guard.check().unwrap();
    if code == "READONLY" {
        // Behind its name may be another server by now, which only a new connection finds.
        let dialled = async || proxy.connections() > connections + 2;
        wait_for("new connections", dialled).await;
    }
    end(server);
    let healed = Instant::now();
    drop(waiter.await.unwrap());
    let (binary, took) = (server.binary(), healed.elapsed());
    println!("{binary}: {asked} requests in a second of {code}, served {took:?} after it");
    guard.check().unwrap();
    drop(guard);
    server.command(&["DEL", "probe"]).unwrap();
    assert_nothing_left(backend, &[&client]).await;
}
