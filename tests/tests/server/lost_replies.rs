//! Connections that end within a reply.

use redlatch_tests::proxy::Direction;

use crate::prelude::*;

redlatch_tests::on_every_server!(connection_that_ends_within_a_reply_is_replaced);

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
