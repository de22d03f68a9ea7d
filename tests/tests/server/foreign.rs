//! What others write into the keys of the family does no harm beyond those keys.

use redlatch_behaviours::releases::{Guard, WAYS, Way};
use redlatch_tests::server::ClientType;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    commands_in_place_of_addresses_are_not_executed,
    acquisition_that_ends_by_a_broken_index_is_undone,
    holder_learns_within_a_round_trip_that_its_key_is_gone,
);

/// The right to upgrade, which one holds at a time.
const UPGRADABLE: Way = Way {
    kind: "upgradable",
    lock: |client, name| {
        let taking = client.read_write_lock(name).upgradable_read();
        Box::pin(async move { taking.await.map(|guard| Some(Box::new(guard) as Guard)) })
    },
    try_lock: |client, name| {
        let taking = client.read_write_lock(name).try_upgradable_read();
        Box::pin(async move { Ok(taking.await?.map(|guard| Box::new(guard) as Guard)) })
    },
};

/// Returns the key of a part of the name that is called as its kind.
fn key(way: Way, part: &str) -> String {
    format!("redlatch:{{{}}}:{part}", way.kind)
}

/// Lets `a` hold a name of the kind, and `b` wait for it.
async fn contended(
    server: &Server,
    way: Way,
    [a, b]: [&Client; 2],
) -> (Option<Guard>, JoinHandle<Result<(), Error>>) {
    let held = (way.lock)(a, way.kind).await.unwrap();
    let waiting = (way.lock)(b, way.kind);
    let waiter = tokio::spawn(async move { waiting.await.map(drop) });
    let queue = key(way, "q");
    let queues = async || server.command(&["ZCARD", &queue]).int() == 1;
    wait_for("the waiter to queue", queues).await;
    (held, waiter)
}

/// A user who may only write sorted sets enters a command where a waiter's address belongs. The
/// script that comes across it runs with the rights of its client.
async fn commands_in_place_of_addresses_are_not_executed(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (a, b) = (backend.client().await, backend.client().await);
    let ways = WAYS.into_iter().filter(|way| way.kind != "multi");
    let ways = ways.chain([UPGRADABLE]);
    join_all(ways.map(|way| release_past_a_command(&backend, way, [&a, &b]))).await;
}

async fn release_past_a_command(backend: &Backend, way: Way, clients: [&Client; 2]) {
    let server = backend.server();
    let victim = format!("victim-{}", way.kind);
    server.command(&["SET", &victim, "1"]).unwrap();
    let (held, waiter) = contended(server, way, clients).await;
    let queue = key(way, "q");
    let range = ["ZRANGE", &queue, "0", "0", "WITHSCORES"];
    let first = server.command(&range).array();
    let score: u64 = first[1].clone().text().parse().unwrap();
    let before = (score - 1).to_string();
    let forged = format!("DEL {victim} 1 1");
    server.command(&["ZADD", &queue, &before, &forged]).unwrap();
    let known = key(way, "l");
    let alive = ["ZADD", &known, "9999999999999", &victim];
    server.command(&alive).unwrap();
    drop(held);
    waiter.await.unwrap().unwrap();
    let there = server.command(&["EXISTS", &victim]).int();
    assert_eq!(there, 1, "{}", way.kind);
}

/// The grant is written before the script comes across the index that is no sorted set.
async fn acquisition_that_ends_by_a_broken_index_is_undone(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (a, b, c) = (
        backend.client().await,
        backend.client().await,
        backend.client().await,
    );
    let server = backend.server();
    for way in WAYS {
        let kind = way.kind;
        if ["multi", "permits"].contains(&kind) {
            continue;
        }
        let (held, waiter) = contended(server, way, [&a, &b]).await;
        let queue = key(way, "q");
        // It is struck out, and who comes finds a name that somebody waits for.
        server.command(&["DEL", &queue]).unwrap();
        drop(held);
        waiter.await.unwrap().unwrap();
        assert_all_empty([&a, &b]).await;
        flag(server, way);
        server.command(&["SET", &queue, "not ours"]).unwrap();
        let taken = (way.lock)(&c, kind).await;
        let error = taken.err().unwrap_or_else(|| panic!("{kind} is taken"));
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{kind}: {error}");
        assert!(!error.is_not_executed(), "{kind}");
        server.command(&["DEL", &queue]).unwrap();
        let free = timeout(Duration::from_secs(1), (way.lock)(&a, kind)).await;
        drop(free.unwrap_or_else(|_| panic!("{kind} is held")).unwrap());
    }
}

/// Lets it look as if somebody waited for a while.
fn flag(server: &Server, way: Way) {
    let name = format!("redlatch:{{{}}}", way.kind);
    let alive = "9999999999999";
    server.command(&["HSET", &name, "n", alive]).unwrap();
    server
        .command(&["ZADD", &key(way, "l"), alive, "nobody"])
        .unwrap();
}

/// With `watch_keys`, the holder need not wait for its next renewal, which is due after 20 s.
async fn holder_learns_within_a_round_trip_that_its_key_is_gone(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new());
    let client = Client::builder(&server.url()).watch_keys(true);
    let client = client.connect().await.unwrap();
    let lease = Duration::from_secs(100);
    let key = "redlatch:{x}";
    let all_reads = || {
        let stats = server.commandstats();
        stats.get("hget").copied().unwrap_or_default()
    };
    let taken = "redis.call('DEL', KEYS[1])
        return redis.call('HSET', KEYS[1], 'k', 'lock:1', 'o', 'b:1', 't', '1', 'u', '9999999999999')";
    // The key is gone, has another value, or is of another holder; at once, after a change by its
    // holder, and after the connections were lost.
    for before in 0..3 {
        for spoil in [
            &["DEL", key][..],
            &["SET", key, "mine"],
            &["EVAL", taken, "1", key],
        ] {
            let reads = all_reads();
            let guard = client.lock("x").lock().renewed_lease(lease).await.unwrap();
            wait_for("its key to be read", async || all_reads() > reads).await;
            if before == 1 {
                let reads = all_reads();
                guard.extend(lease * 2).await.unwrap();
                wait_for("its key to be read", async || all_reads() > reads).await;
            } else if before == 2 {
                let reads = all_reads();
                server.client_kill(ClientType::Normal);
                wait_for("its key to be read", async || all_reads() > reads).await;
            }
            guard.check().unwrap();
            server.command(spoil).unwrap();
            let told = timeout(Duration::from_secs(10), guard.lost()).await;
            assert_eq!(told.unwrap(), LossCause::Forgotten, "{before} {spoil:?}");
            drop(guard);
            client.settled().await;
            server.command(&["DEL", key]).unwrap();
        }
    }
}
