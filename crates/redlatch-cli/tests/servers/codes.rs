//! Exit codes of all verbs for what a server refuses.

use redlatch_tests::server::{Server, ServerBinary, ServerOptions};

use crate::support::{World, output};

/// One call of each verb that talks to a server. The command of a verb leaves a file behind.
const CALLS: [&[&str]; 11] = [
    &["run", "-n", "a", "--", "touch", "ran"],
    &["once", "a", "--slot", "1", "--", "touch", "ran"],
    &["elect", "a", "--", "touch", "ran"],
    &["elect", "a", "--observe"],
    &["ls"],
    &["ls", "--watch", "--json"],
    &["show", "a"],
    &["wait", "a"],
    &["hold", "a", "--for", "1h"],
    &["release", "1@a"],
    &["forget", "a"],
];

#[tokio::test(flavor = "multi_thread")]
async fn all_verbs_end_with_77_for_a_wrong_password_or_missing_rights() {
    let world = World::new().await;
    let start = || {
        let options = ServerOptions::new()
            .user("app on >right ~* &* +@all")
            .user("few on >right ~* &* +@connection");
        Server::start(&ServerBinary::any(), options)
    };
    let server = tokio::task::spawn_blocking(start).await.unwrap();
    for user in ["app:wrong", "few:right"] {
        let url = format!("redis://{user}@{}", server.address());
        for call in CALLS {
            let ended = output(&mut world.command_at(&url, call)).await;
            assert_eq!(ended.code, 77, "{user} {call:?}: {}", ended.stderr);
            assert_eq!(ended.stderr.matches('\n').count(), 1, "{}", ended.stderr);
        }
        let broken = ["break", "a", "--token", "1"];
        assert_eq!(output(&mut world.command_at(&url, &broken)).await.code, 77);
    }
    assert!(!world.file("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_verbs_end_with_69_without_a_server() {
    let world = World::new().await;
    // Nothing listens on the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", gone.local_addr().unwrap());
    drop(gone);
    for call in CALLS {
        let ended = output(&mut world.command_at(&url, call)).await;
        assert_eq!(ended.code, 69, "{call:?}: {}", ended.stderr);
    }
    assert!(!world.file("ran").exists());
}
