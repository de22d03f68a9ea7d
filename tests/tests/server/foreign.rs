//! What others write into the keys of the family does no harm beyond those keys.

use std::{any::Any, time::Duration};

use futures_util::future::join_all;
use redlatch::{Client, ErrorKind, LossCause};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    server::{ClientType, Server, ServerBinary, ServerOptions},
    wait::wait_for,
};

redlatch_tests::on_every_server!(
    commands_in_place_of_addresses_are_not_executed,
    acquisition_that_ends_by_a_broken_index_is_undone,
    holder_learns_within_a_round_trip_that_its_key_is_gone,
);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Lock,
    Fair,
    Writer,
    Upgradable,
    Semaphore,
    Permits,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Lock,
        Self::Fair,
        Self::Writer,
        Self::Upgradable,
        Self::Semaphore,
        Self::Permits,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn key(self, part: &str) -> String {
        format!("redlatch:{{{}}}:{part}", self.name())
    }

    async fn take(self, client: &Client) -> Result<Box<dyn Any + Send>, redlatch::Error> {
        let name = &self.name();
        Ok(match self {
            Self::Lock => Box::new(client.lock(name).lock().await?),
            Self::Fair => Box::new(client.fair_lock(name).lock().await?),
            Self::Writer => Box::new(client.read_write_lock(name).write().await?),
            Self::Upgradable => Box::new(client.read_write_lock(name).upgradable_read().await?),
            Self::Semaphore => {
                let semaphore = client.semaphore(name).permits_if_unset(1);
                Box::new(semaphore.acquire().await?)
            }
            Self::Permits => {
                let permits = client.permit_expirable_semaphore(name).permits_if_unset(1);
                let lease = Duration::from_secs(3);
                Box::new(permits.acquire().lease(lease).await?)
            }
        })
    }
}

/// A user who may only write sorted sets enters a command where a waiter's address belongs. The
/// script that comes across it runs with the rights of its client.
async fn commands_in_place_of_addresses_are_not_executed(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (a, b) = (backend.client().await, backend.client().await);
    let kinds = Kind::ALL.map(|kind| release_past_a_command(&backend, kind, &a, &b));
    join_all(kinds).await;
}

async fn release_past_a_command(backend: &Backend, kind: Kind, a: &Client, b: &Client) {
    let server = backend.server();
    let victim = format!("victim-{}", kind.name());
    server.command(&["SET", &victim, "1"]).unwrap();
    let held = kind.take(a).await.unwrap();
    let waiter = tokio::spawn({
        let b = b.clone();
        async move { kind.take(&b).await.map(drop) }
    });
    let queue = kind.key("q");
    wait_for("the waiter to queue", async || {
        server.command(&["ZCARD", &queue]).int() == 1
    })
    .await;
    let range = ["ZRANGE", &queue, "0", "0", "WITHSCORES"];
    let first = server.command(&range).array();
    let score: u64 = first[1].clone().text().parse().unwrap();
    let before = (score - 1).to_string();
    let forged = format!("DEL {victim} 1 1");
    server.command(&["ZADD", &queue, &before, &forged]).unwrap();
    let clients = kind.key("l");
    let alive = ["ZADD", &clients, "9999999999999", &victim];
    server.command(&alive).unwrap();
    // Permits with an id end with their lease.
    drop(held);
    waiter.await.unwrap().unwrap();
    let there = server.command(&["EXISTS", &victim]).int();
    assert_eq!(there, 1, "{kind:?}");
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
    for kind in [Kind::Lock, Kind::Fair, Kind::Writer, Kind::Semaphore] {
        let held = kind.take(&a).await.unwrap();
        let waiter = tokio::spawn({
            let b = b.clone();
            async move { kind.take(&b).await.map(drop) }
        });
        let queue = kind.key("q");
        wait_for("the waiter to queue", async || {
            server.command(&["ZCARD", &queue]).int() == 1
        })
        .await;
        // It is struck out, and who comes finds a name that somebody waits for.
        server.command(&["DEL", &queue]).unwrap();
        drop(held);
        waiter.await.unwrap().unwrap();
        for client in [&a, &b] {
            assert_tables_empty(client).await;
        }
        flag(server, kind);
        server.command(&["SET", &queue, "not ours"]).unwrap();
        let taken = kind.take(&c).await;
        let error = taken.err().unwrap_or_else(|| panic!("{kind:?} is taken"));
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{kind:?}: {error}");
        assert!(!error.is_not_executed(), "{kind:?}");
        server.command(&["DEL", &queue]).unwrap();
        let free = tokio::time::timeout(Duration::from_secs(1), kind.take(&a)).await;
        drop(free.unwrap_or_else(|_| panic!("{kind:?} is held")).unwrap());
    }
}

/// Lets it look as if somebody waited for a while.
fn flag(server: &Server, kind: Kind) {
    let key = format!("redlatch:{{{}}}", kind.name());
    let alive = "9999999999999";
    server.command(&["HSET", &key, "n", alive]).unwrap();
    server
        .command(&["ZADD", &kind.key("l"), alive, "nobody"])
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
            let told = tokio::time::timeout(Duration::from_secs(10), guard.lost()).await;
            assert_eq!(told.unwrap(), LossCause::Forgotten, "{before} {spoil:?}");
            drop(guard);
            client.settled().await;
            server.command(&["DEL", key]).unwrap();
        }
    }
}
