//! Locks in the layouts of other libraries: lost replies, and rights.

use redlatch::{
    Client, ErrorKind, Released,
    compat::{Redisson, SetNx},
};
use redlatch_lua::{REDISSON, SETNX, Source};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, documented_rights, preload},
    proxy::{Pick, Proxy, Request, Then},
    server::{Server, ServerBinary, ServerOptions, Version},
};

redlatch_tests::on_every_server!(
    set_nx_whose_replies_are_lost_counts_once,
    redisson_whose_replies_are_lost_counts_once,
    documented_rights_are_enough,
    name_without_rights_is_an_error,
);

/// Picks calls of `script`.
fn calls(server: &Server, script: &Source) -> Pick {
    let sha = server.command(&["SCRIPT", "LOAD", script.text]).text();
    Pick::matching(move |request: &Request| request.contains(&sha))
}

async fn set_nx_whose_replies_are_lost_counts_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    for then in [Then::Stall, Then::Cut] {
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let lock = SetNx::new(&client, "x");
        let _lost = proxy.drop_reply(calls(backend.server(), &SETNX.acquire), then);
        let guard = lock.lock().await.unwrap();
        let value = backend.string("x").unwrap();
        assert!(value.starts_with(client.id().as_str()), "{value}");
        let _lost = proxy.drop_reply(calls(backend.server(), &SETNX.release), then);
        let released = guard.release().await.unwrap();
        assert_eq!(released, Released::Free);
        assert_eq!(backend.string("x"), None);
        assert_tables_empty(&client).await;
    }
}

async fn redisson_whose_replies_are_lost_counts_once(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    for then in [Then::Stall, Then::Cut] {
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let lock = Redisson::new(&client, "x");
        let first = lock.lock().await.unwrap();
        let _lost = proxy.drop_reply(calls(backend.server(), &REDISSON.acquire), then);
        let second = lock.lock().owner(first.owner()).await.unwrap();
        assert_eq!(lock.info().await.unwrap().unwrap().count, 2);
        let _lost = proxy.drop_reply(calls(backend.server(), &REDISSON.release), then);
        assert_eq!(second.release().await.unwrap(), Released::StillHeld(1));
        assert_eq!(first.release().await.unwrap(), Released::Free);
        assert!(lock.info().await.unwrap().is_none());
        assert_tables_empty(&client).await;
    }
}

/// The rights in the README of the project, and those in the README of the crate.
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
