//! A server that is out of memory lets go of what waits and of what was given up.

use std::future::IntoFuture;

use redlatch::Client;
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, assert_nothing_left, call, key, preload, registered},
    proxy::{Proxy, Then},
    server::ServerBinary,
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(full_server_accepts_withdrawals_and_undos,);

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
    server.config_set("maxmemory", "1");
    for attempt in [attempts.0, attempts.1] {
        attempt.abort();
        // The attempt is given up when its task has ended, not before.
        assert!(attempt.await.unwrap_err().is_cancelled());
    }
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
