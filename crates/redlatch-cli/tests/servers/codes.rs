//! The exit code of all verbs for what a server refuses.

use redlatch_tests::server::{ServerBinary, ServerOptions};

use crate::{server::Server, support::all_end_with};

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

/// Verbs that look or give back need no right to take anything, and no memory. The rights are those
/// of the page.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_looked_at_by_a_user_who_may_take_nothing() {
    let page = include_str!("../../../../docs/book/src/how-to/rights.md");
    // Behind the rights of a program.
    let lines: Vec<_> = page.split("redis-cli ").skip(2).collect();
    let rights = |number: usize| {
        let line = lines[number].split("```").next().unwrap();
        let words = line.split_whitespace().filter(|word| *word != "\\");
        let words = words.map(|word| word.trim_matches('\''));
        words.collect::<Vec<_>>()
    };
    for binary in ServerBinary::all() {
        let world = Server::start(binary, ServerOptions::new()).await;
        let held = world.ends(0, "hold a --for 1h").await.stdout;
        let client = world.client().await;
        let semaphore = client.semaphore("s").permits_if_unset(3);
        let _permit = semaphore.acquire().await.unwrap();
        let _read = client.read_write_lock("rw").read().await.unwrap();
        let reader = client.object("rw").await.unwrap().unwrap();
        let owner = reader.holders[0].owner.as_str();
        let url = world.url().replace("//", "//look:secret@");
        let as_look = async |code: i32, args: &[&str]| world.ends_at(&url, code, args).await;
        world.server.command(&rights(0));
        as_look(77, &["run", "-n", "b", "--", "true"]).await;
        world.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        world.ends(69, "run -n b -- true").await.says("memory");
        let listed = as_look(0, &["ls"]).await;
        assert_eq!(listed.stdout.matches("(pid").count(), 3, "{listed:?}");
        as_look(0, &["show", "a"]).await;
        for (name, code) in [("a", 75), ("s", 0), ("rw", 75)] {
            as_look(code, &["wait", "-w", "0s", name]).await;
        }
        as_look(77, &["release", held.trim()]).await;
        world.server.command(&rights(1));
        as_look(75, &["forget", "a"]).await;
        as_look(0, &["release", held.trim()]).await;
        as_look(0, &["break", "rw", "--owner", owner]).await;
        as_look(0, &["forget", "a"]).await;
    }
}
