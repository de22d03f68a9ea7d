//! A request that the network keeps, and that arrives when nobody expects it any more: its client
//! has given up, undone and perhaps acquired again, and others may hold the name.

use std::time::Instant;

use futures_util::future::join_all;
use redlatch::{Client, Released};
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, assert_nothing_left, call, preload},
    proxy::{Held, Proxy},
    server::ServerBinary,
};

redlatch_tests::on_every_server!(a_late_copy_of_an_undone_acquire_is_refused,);

/// A client whose acquire of `name` is kept by its proxy and that has given up; the undo has been
/// answered.
async fn given_up(backend: &Backend, name: &str) -> (Client, Proxy, Held) {
    let (client, proxy) = behind_a_proxy(backend).await;
    let acquire = call(backend.server(), &REENTRANT.acquire, name);
    let hold = proxy.hold_request(acquire);
    let attempt = client.lock(name).try_lock_for(300 * MS);
    let (held, outcome) = tokio::join!(hold.caught(), async { attempt.await.map(drop) });
    assert!(outcome.unwrap_err().is_transient());
    // The undo stood behind the request that is kept, and goes by a new connection.
    client.settled().await;
    (client, proxy, held)
}

async fn behind_a_proxy(backend: &Backend) -> (Client, Proxy) {
    let proxy = Proxy::start(backend.server().address());
    let client = Client::connect(&proxy.url()).await.unwrap();
    (client, proxy)
}

// L1, L2
async fn a_late_copy_of_an_undone_acquire_is_refused(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let other = backend.client().await;
    let names = ["undone", "late", "taken", "taken-late"];
    let rigs = join_all(names.map(|name| given_up(&backend, name))).await;
    let sent = Instant::now();
    let [undone, late, taken, taken_late] = &rigs[..] else {
        unreachable!("four names")
    };

    assert_refused(&undone.2, "void").await;
    let guard = other.lock("taken").lock().await.unwrap();
    assert_refused(&taken.2, "void").await;
    let kept = other.lock("taken-late").lock().await.unwrap();

    backend
        .pass((5_200 * MS).saturating_sub(sent.elapsed()))
        .await;
    assert_refused(&late.2, "late").await;
    assert_refused(&taken_late.2, "late").await;
    assert_eq!(
        other.lock("taken").hold_count(guard.owner()).await.unwrap(),
        1
    );
    assert_eq!(
        other
            .lock("taken-late")
            .hold_count(kept.owner())
            .await
            .unwrap(),
        1
    );
    for free in ["undone", "late"] {
        assert!(!other.lock(free).is_locked().await.unwrap(), "{free}");
    }
    let mut clients = vec![other];
    for (client, proxy, held) in rigs {
        // The kept request itself: its connection was given up long ago.
        let _ = held.let_go().await;
        drop(proxy);
        clients.push(client);
    }
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(kept.release().await.unwrap(), Released::Free);
    clients.truncate(1);
    assert_nothing_left(&backend, &clients.iter().collect::<Vec<_>>()).await;
}

/// Delivers several copies; the server refuses each with this word.
async fn assert_refused(held: &Held, word: &str) {
    for _ in 0..3 {
        let reply = held.deliver().await.unwrap();
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.contains(word), "{word} expected, got {reply}");
    }
}
