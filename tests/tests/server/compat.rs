//! Locks in the layouts of other libraries: rights.

use redlatch::{
    Client, ErrorKind,
    compat::{Redisson, SetNx},
};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, documented_rights},
    server::{Server, ServerBinary, ServerOptions, Version},
};

redlatch_tests::on_every_server!(
    documented_rights_are_enough,
    name_without_rights_is_an_error,
);

/// The rights in the book, and those in the README of the crate.
fn documented(binary: &ServerBinary) -> String {
    let compat = include_str!("../../../crates/redlatch-compat/README.md");
    let (_, text) = compat.split_once("ACL SETUSER app ").unwrap();
    let (rights, _) = text.split_once("```").unwrap();
    let mut more = rights.trim().replace("report", "x");
    if binary.version < Version(7, 0, 0) {
        more = more.replace("+spublish", "");
    }
    let project = documented_rights();
    format!("app on >secret {project} +hello {more}")
}

async fn documented_rights_are_enough(binary: ServerBinary) {
    let options = ServerOptions::new().user(documented(&binary));
    let backend = Backend::Real(Server::start(&binary, options));
    let url = format!("redis://app:secret@{}", backend.server().address());
    let (ada, bob) = (
        Client::connect(&url).await.unwrap(),
        Client::connect(&url).await.unwrap(),
    );
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
    let options = ServerOptions::new().user(documented(&binary));
    let backend = Backend::Real(Server::start(&binary, options));
    let url = format!("redis://app:secret@{}", backend.server().address());
    let client = Client::connect(&url).await.unwrap();
    for error in [
        SetNx::new(&client, "other").lock().await.unwrap_err(),
        Redisson::new(&client, "other").lock().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    }
    assert_tables_empty(&client).await;
}
