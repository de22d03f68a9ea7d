//! Locks in the layouts of other libraries: rights.

use redlatch::compat::SetNx;
use redlatch_tests::server::Version;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    documented_rights_are_enough,
    name_without_rights_is_an_error,
);

/// A server with a user that has the rights in the book, and those in the README of the crate.
fn server(binary: &ServerBinary) -> Backend {
    let compat = include_str!("../../../crates/redlatch-compat/README.md");
    let (_, text) = compat.split_once("ACL SETUSER app ").unwrap();
    let (rights, _) = text.split_once("```").unwrap();
    let mut more = rights.trim().replace("report", "x");
    if binary.version < Version(7, 0, 0) {
        more = more.replace("+spublish", "");
    }
    let project = documented_rights();
    server_with(binary, &format!("{project} +hello {more}"))
}

async fn documented_rights_are_enough(binary: ServerBinary) {
    let backend = server(&binary);
    let connect = || as_app(&backend).connect();
    let (ada, bob) = (connect().await.unwrap(), connect().await.unwrap());
    // Connecting tries what is optional.
    backend.server().command(&["ACL", "LOG", "RESET"]);
    let guard = SetNx::new(&ada, "x").lock().await.unwrap();
    let lock = SetNx::new(&bob, "x");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    guard.extend(1000 * MS).await.unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();

    let guard = Redisson::new(&ada, "x").lock().await.unwrap();
    let lock = Redisson::new(&bob, "x");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(300 * MS).await;
    assert_eq!(backend.subscribers("redisson_lock__channel:{x}"), 1);
    guard.extend(1000 * MS).await.unwrap();
    assert!(Redisson::new(&bob, "x").force_release().await.unwrap());
    waiting.await.unwrap().release().await.unwrap();
    let denied = backend.server().command(&["ACL", "LOG"]).array();
    assert_eq!(denied.len(), 0, "something was denied: {denied:?}");
}

async fn name_without_rights_is_an_error(binary: ServerBinary) {
    let backend = server(&binary);
    let client = as_app(&backend).connect().await.unwrap();
    for error in [
        SetNx::new(&client, "other").lock().await.unwrap_err(),
        Redisson::new(&client, "other").lock().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    }
    assert_tables_empty(&client).await;
}
