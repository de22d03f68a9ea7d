//! The commands that `redlatch` sends. The server inside of the process counts them.

use redlatch::runtime::Command;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_listed_and_nothing_else_is_missing() {
    let world = World::new().await;
    let _held = world.client().await.lock("a").lock().await.unwrap();
    let foreign = Command::new("SET").arg("redlatch:{b}").arg("text");
    world.server.execute(&foreign).unwrap();
    let listed = world.ends(0, "ls").await;
    listed.is_silent();
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert!(lines[1].starts_with("a "), "{lines:?}");
    let told = "unreadable: a value of another program";
    assert!(lines[2].contains(told), "{lines:?}");
    let object = json(&world.redlatch("ls --json b").await.stdout);
    assert_eq!(object["kind"], "unknown");
    let told = object["unreadable"].as_str().unwrap();
    assert!(told.contains("another program"), "{told}");
    for verb in ["show", "wait"] {
        world.ends(64, &[verb, "b"]).await.says("another program");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_that_is_not_set_is_not_open() {
    let world = World::new().await;
    let unset = world.ends(75, "wait --latch ready -w 0s").await;
    unset.says("latch ready is not set");
    let looks = world.server.command_count("EVALSHA");
    let mut child = world.start("wait --latch ready");
    let server = world.server.clone();
    let has_looked = || server.command_count("EVALSHA") > looks + 1;
    until("a look at the latch", has_looked).await;
    let client = world.client().await;
    let latch = client.count_down_latch("ready");
    latch.try_set_count(1).await.unwrap();
    assert!(child.try_wait().unwrap().is_none());
    latch.count_down(1).await.unwrap();
    finished(child).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_asks_for_the_kind_and_the_holders_once() {
    let world = World::new().await;
    let _held = world.client().await.fair_lock("a").lock().await.unwrap();
    let before = world.server.command_count("HMGET");
    world.ends(75, "wait a -w 2s").await;
    // The first look, and that for the message.
    assert_eq!(world.server.command_count("HMGET") - before, 2);
}
