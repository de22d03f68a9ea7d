//! Connections that swallow a reply, and connections that end within one.

use redlatch::{Client, ErrorKind, Released};
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, assert_nothing_left, call, preload},
    proxy::{Direction, Proxy, Then},
    server::ServerBinary,
};

redlatch_tests::on_every_server!(
    a_stalled_connection_is_replaced_in_time_for_short_leases,
    connection_that_ends_within_a_reply_is_replaced,
);

/// A connection that swallows one reply is given up after a sixth of the lease and a second for the
/// PING, whatever the lease.
// L13
async fn a_stalled_connection_is_replaced_in_time_for_short_leases(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    for lease in [2_000, 3_000] {
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let renew = call(backend.server(), &REENTRANT.renew, "x");
        drop(proxy.drop_reply(renew, Then::Stall));
        let guard = client.lock("x").lock().renewed_lease(lease * MS);
        let guard = guard.await.unwrap();
        let past = tokio::time::sleep(2 * lease * MS);
        assert!(guard.run(past).await.is_ok(), "a lease of {lease} ms");
        drop(guard);
        assert_nothing_left(&backend, &[&client]).await;
    }
}

/// Within the greeting, and within what comes after it.
// L2
async fn connection_that_ends_within_a_reply_is_replaced(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    for bytes in (1..=160).step_by(13) {
        proxy.cut_after(Direction::ToClient, bytes);
        match Client::connect(&proxy.url()).await {
            Ok(client) => client.close_now().await,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{bytes}: {error:?}"),
        }
        proxy.withdraw_orders();
    }
    let client = Client::connect(&proxy.url()).await.unwrap();
    for bytes in (1..=160).step_by(40) {
        // The new connection is cut as well, within its greeting.
        proxy.cut();
        proxy.cut_after(Direction::ToClient, bytes);
        let guard = client.lock("x").lock().await.unwrap();
        proxy.cut_after(Direction::ToClient, 1 + bytes % 7);
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
    assert_nothing_left(&backend, &[&client]).await;
}
