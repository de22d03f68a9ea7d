//! Renewals and the connection of their own.

use crate::prelude::*;

const LEASE: Duration = Duration::from_secs(3);

/// What hangs on the connection for commands holds up no renewal.
#[tokio::test(start_paused = true)]
async fn renewals_use_a_connection_of_their_own() {
    let backend = Backend::embedded();
    let client = backend.builder().self_check(false).connect().await.unwrap();
    let server = backend.embedded_server();
    let short = client.lock("x").lock().renewed_lease(LEASE).await.unwrap();
    assert_eq!(server.connection_count(), 1, "nothing is to be renewed yet");
    backend.pass(LEASE).await;
    let present = server.connection_count();
    assert_eq!(present, 3, "for commands, messages and renewals");
    backend.pass(LEASE * 10).await;
    assert_eq!(short.state(), HoldState::Held);
    assert_eq!(server.connection_count(), present, "one for all renewals");
    short.release().await.unwrap();
    client.close(Duration::ZERO).await;
    backend.pass(Duration::from_secs(1)).await;
    assert_eq!(server.connection_count(), 0);
}

/// A server that takes no more connections costs no hold.
#[tokio::test(start_paused = true)]
async fn renewals_use_the_command_connection_where_no_other_is_accepted() {
    let backend = Backend::embedded();
    let client = backend.builder().self_check(false).connect().await.unwrap();
    let server = backend.embedded_server();
    let guard = client.lock("x").lock().renewed_lease(LEASE).await.unwrap();
    server.refuse_connections(true);
    backend.pass(LEASE * 10).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(server.connection_count(), 1);
    server.refuse_connections(false);
    backend.pass(LEASE).await;
    assert_eq!(server.connection_count(), 3, "also for messages");
    assert_eq!(guard.state(), HoldState::Held);
}
