//! Things under our prefix that are not ours, patterns that are no patterns, rights that are
//! missing.

use redlatch::runtime::Command;
use redlatch_embedded::EmbeddedServer;

use crate::{prelude::*, trouble::refuse_subscriptions};

#[tokio::test(start_paused = true)]
async fn no_pattern_panics() {
    let (_backend, [client]) = embedded().await;
    let _guard = client.lock("[a").lock().await.unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let letters = ['[', ']', '^', '-', '\\', '*', '?', 'a', 'b', '🔒', '{'];
    let random = (0..300).map(|_| {
        let len = rng.usize(0..8);
        let letter = |_| letters[rng.usize(..letters.len())];
        (0..len).map(letter).collect::<String>()
    });
    let known = ["[a", "[", "[^", "[a-", "[]", "\\", "[\\", "[a-\\", ""];
    for pattern in known.iter().map(|text| (*text).to_owned()).chain(random) {
        let mut locks = client.locks(&pattern);
        while let Some(found) = locks.next().await {
            assert_eq!(found.unwrap().info.name, "[a", "{pattern}");
        }
    }
    let found = client.locks("\\[a").next().await.unwrap().unwrap();
    assert_eq!(found.info.name, "[a");
}

#[tokio::test(start_paused = true)]
async fn foreign_keys_under_the_prefix_do_not_end_the_search() {
    let (backend, [client]) = embedded().await;
    let mut guards = Vec::new();
    for i in 0..20 {
        guards.push(client.lock(format!("n{i}")).lock().await.unwrap());
        backend.command(&["SET", &format!("redlatch:{{n{i}x}}"), "mine"]);
        backend.command(&["SET", &format!("redlatch:@n{i}{{t}}"), "mine"]);
        backend.command(&["ZADD", &format!("redlatch:{{n{i}y}}"), "1", "mine"]);
        backend.command(&["HSET", &format!("redlatch:{{n{i}z}}"), "k", "fair:1"]);
        backend.command(&["SET", &format!("redlatch:{{n{i}"), "no name at all"]);
    }
    let mut locks = client.locks("n*");
    let mut names = Vec::new();
    while let Some(found) = locks.next().await {
        names.push(found.unwrap().info.name);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn client_without_channel_rights_rechecks_by_the_clock_and_stays_connected() {
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    refuse_subscriptions(&backend);
    let connect = async || backend.builder().self_check(false).connect().await.unwrap();
    let (client, other) = (connect().await, connect().await);
    let guard = other.lock("x").lock().await.unwrap();
    let waiters = [(); 3].map(|()| tokio::spawn(client.lock("x").lock().into_future()));
    // By then a renewal was due, which opens a connection of its own.
    backend.pass(15 * SECOND).await;
    let (connections, dials) = (server.connection_count(), dials(server));
    assert!(connections <= 5, "{connections}");
    for _ in 0..600 {
        backend.pass(100 * MS).await;
        assert_eq!(server.connection_count(), connections);
    }
    assert_eq!(dials, self::dials(server), "nobody dials again and again");
    guard.release().await.unwrap();
    backend.pass(300 * MS).await;
    assert!(waiters.iter().any(|waiter| waiter.is_finished()));
    for waiter in waiters {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    assert_tables_empty(&client).await;
}

/// Returns how many connections there have ever been, but for the ones that this itself makes: ids
/// are given in order.
fn dials(server: &EmbeddedServer) -> i64 {
    use std::sync::atomic::AtomicI64;
    static ASKED: AtomicI64 = AtomicI64::new(0);
    let id = server.execute(&Command::new("CLIENT").arg("ID")).unwrap();
    id.as_int().unwrap() - ASKED.fetch_add(1, Ordering::Relaxed)
}
