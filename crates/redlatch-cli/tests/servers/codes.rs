//! The exit code of all verbs for what a server refuses.

use redlatch_tests::server::{ServerBinary, ServerOptions};

use crate::{
    server::Server,
    support::{all_end_with, output},
};

#[tokio::test(flavor = "multi_thread")]
async fn all_verbs_end_with_77_for_a_wrong_password_or_missing_rights() {
    for binary in ServerBinary::all() {
        let options = ServerOptions::new()
            .user("app on >right ~* &* +@all")
            .user("few on >right ~* &* +@connection");
        let world = Server::start(binary, options).await;
        for user in ["app:wrong", "few:right"] {
            let url = world.url().replace("//", &format!("//{user}@"));
            for ended in all_end_with(77, &world, &url).await {
                assert_eq!(ended.stderr.matches('\n').count(), 1, "{user}: {ended:?}");
            }
        }
    }
}

/// Verbs that look or give back need no right to take anything, and no memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_and_one_that_may_only_be_read_are_looked_at() {
    for binary in ServerBinary::all() {
        let rights = "+@read +@connection +eval +evalsha +time +subscribe +unsubscribe +info";
        let options = ServerOptions::new()
            .user("app on >right ~* &* +@all")
            .user(&format!("looks on >right ~redlatch:* &redlatch:* {rights}"));
        let world = Server::start(binary, options).await;
        let held = world.ends(0, "hold a --for 1h").await.stdout;
        let client = world.client().await;
        let semaphore = client.semaphore("s").permits_if_unset(3);
        let _permit = semaphore.acquire().await.unwrap();
        let _read = client.read_write_lock("rw").read().await.unwrap();
        let looks = async |url: &str| {
            for (line, code) in [
                ("ls", 0),
                ("ls --json", 0),
                ("show a", 0),
                ("wait -w 0s a", 75),
                ("wait -w 0s s", 0),
                ("wait -w 0s rw", 75),
                ("forget a", 75),
            ] {
                let ended = output(&mut world.command_at(url, line)).await;
                assert_eq!(ended.code, code, "{url} {line}: {ended:?}");
                assert!(
                    line != "ls" || ended.stdout.matches("(pid").count() == 3,
                    "{ended:?}"
                );
            }
        };
        looks(&world.url().replace("//", "//looks:right@")).await;
        world.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        looks(&world.url()).await;
        world.ends(69, "run -n b -- true").await.says("memory");
        let url = world.url().replace("//", "//looks:right@");
        let release = ["release", held.trim()];
        output(&mut world.command_at(&url, &release)).await.ends(77);
        world.ends(0, &release).await;
        let reader = client.object("rw").await.unwrap().unwrap();
        let owner = &reader.holders[0].owner;
        world.ends(0, &["break", "rw", "--owner", owner]).await;
    }
}
