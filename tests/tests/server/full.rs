//! A server that is out of memory takes nothing new, and lets go of everything.

use std::{future::IntoFuture, time::Instant};

use redlatch::{Client, ErrorKind, Released};
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, call, key, preload, registered},
    proxy::{Proxy, Then},
    server::{Server, ServerBinary},
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    full_server_refuses_acquisitions_without_partial_writes,
    full_server_accepts_renewals_and_releases,
    full_server_accepts_withdrawals_and_undos,
);

/// Fills the server: by a tenth too much, or as if it had a budget of one byte.
fn fill(server: &Server, budget: Budget) {
    let limit = match budget {
        Budget::OneByte => 1,
        // What one connection takes comes and goes, so a byte less would not do.
        Budget::BelowUsed => server.used_memory() / 10 * 9,
    };
    server.config_set("maxmemory", &limit.to_string());
}

#[derive(Clone, Copy, Debug)]
enum Budget {
    OneByte,
    BelowUsed,
}

// L19
async fn full_server_refuses_acquisitions_without_partial_writes(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    for budget in [Budget::OneByte, Budget::BelowUsed] {
        let guard = a.lock("held").lock().await.unwrap();
        let keys = backend.keys();
        fill(server, budget);
        let refused = b.lock("free").lock().await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ServerFull, "{budget:?}");
        assert!(refused.is_transient() && refused.is_not_executed());
        let refused = b.lock("free").try_lock().await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ServerFull, "{budget:?}");
        let again = a.lock("held").lock().owner(guard.owner());
        let refused = again.await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ServerFull, "{budget:?}");
        // What would have to register is refused, what would not is told that the name is held.
        let refused = b.lock("held").lock().await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ServerFull, "{budget:?}");
        assert!(b.lock("held").try_lock().await.unwrap().is_none());
        assert_eq!(backend.keys(), keys, "nothing was written");
        assert_eq!(a.lock("held").hold_count(guard.owner()).await.unwrap(), 1);
        let refused = backend.builder().connect().await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ServerFull, "{budget:?}");
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        server.config_set("maxmemory", "0");
        drop(b.lock("held").lock().await.unwrap());
    }
    assert_nothing_left(&backend, &[&a, &b]).await;
}

// L12
async fn full_server_accepts_renewals_and_releases(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let client = backend.client().await;
    for budget in [Budget::OneByte, Budget::BelowUsed] {
        let lock = client.lock("nested");
        let renewed = lock.lock().renewed_lease(SECOND).await.unwrap();
        let inner = lock.lock().owner(renewed.owner()).await.unwrap();
        let extended = client.lock("extended").lock().lease(SECOND).await.unwrap();
        let forced = client.lock("forced").lock().await.unwrap();
        let limited = client
            .lock("limited")
            .lock()
            .renewed_lease(SECOND)
            .await
            .unwrap();
        fill(server, budget);
        extended.extend(5 * SECOND).await.unwrap();
        assert!(client.lock("forced").force_release().await.unwrap());
        assert!(!client.lock("forced").is_locked().await.unwrap());
        let limit = client.lock("limited").force_release().after_lease();
        assert!(limit.await.unwrap());
        let until = Instant::now() + 1_500 * MS;
        while Instant::now() < until {
            renewed.check().unwrap();
            backend.pass(20 * MS).await;
        }
        assert!(limited.check().is_err(), "its renewal was forbidden");
        assert_eq!(inner.release().await.unwrap(), Released::StillHeld(1));
        assert_eq!(renewed.release().await.unwrap(), Released::Free);
        assert_eq!(extended.release().await.unwrap(), Released::Free);
        assert_eq!(forced.release().await.unwrap(), Released::Revoked);
        drop(limited);
        client.settled().await;
        server.config_set("maxmemory", "0");
    }
    assert_nothing_left(&backend, &[&client]).await;
}

// L2
async fn full_server_accepts_withdrawals_and_undos(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    preload(server);
    let client = backend.client().await;
    let guard = client.lock("held").lock().await.unwrap();
    let (waiting_client, waiter) = {
        let client = backend.client().await;
        let lock = client.lock("held");
        (
            client,
            tokio::spawn(async move { lock.try_lock_for(600 * MS).await }),
        )
    };
    registered(&backend, "held").await;

    let executed = Proxy::start(server.address());
    let kept = Proxy::start(server.address());
    let lost = executed.drop_reply(call(server, &REENTRANT.acquire, "executed"), Then::Stall);
    let hold = kept.hold_request(call(server, &REENTRANT.acquire, "kept"));
    let first = Client::connect(&executed.url()).await.unwrap();
    let second = Client::connect(&kept.url()).await.unwrap();
    let attempts = (
        tokio::spawn(first.lock("executed").lock().into_future()),
        tokio::spawn(second.lock("kept").lock().into_future()),
    );
    lost.answered().await;
    let held = hold.caught().await;
    assert!(client.lock("executed").is_locked().await.unwrap());
    fill(server, Budget::OneByte);
    attempts.0.abort();
    attempts.1.abort();
    assert!(waiter.await.unwrap().unwrap().is_none());
    for client in [&waiting_client, &first, &second] {
        client.settled().await;
    }
    assert!(!client.lock("executed").is_locked().await.unwrap());
    let queue = format!("{}:q", key("held"));
    eventually("the waiter to be struck out", GENEROUS, async || {
        server.command(&["ZCARD", &queue]).unwrap().int() == 0
    })
    .await;
    server.config_set("maxmemory", "0");
    let late = held.deliver().await.unwrap();
    assert!(String::from_utf8_lossy(&late).contains("void"), "{late:?}");
    drop((held, guard));
    assert_nothing_left(&backend, &[&client, &waiting_client, &first, &second]).await;
}
