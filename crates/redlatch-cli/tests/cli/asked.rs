//! The commands that `redlatch` sends. The server inside of the process counts them.

use redlatch::runtime::Command;

use crate::{
    see::json,
    support::{World, eventually, finished},
};

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_listed_and_nothing_else_is_missing() {
    let world = World::new().await;
    let client = world.client().await;
    let _held = client.lock("a").lock().await.unwrap();
    let foreign = Command::new("SET").arg("redlatch:{b}").arg("text");
    world.server.execute(&foreign).unwrap();
    let listed = world.redlatch(&["ls"]).await;
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert!(lines[1].starts_with("a "), "{lines:?}");
    assert!(
        lines[2].contains("unreadable: a value of another program"),
        "{lines:?}"
    );
    let listed = world.redlatch(&["ls", "--json", "b"]).await;
    let object = json(&listed.stdout);
    assert_eq!(object["kind"], "unknown");
    assert!(
        object["unreadable"]
            .as_str()
            .unwrap()
            .contains("another program")
    );
    for verb in ["show", "wait"] {
        let refused = world.redlatch(&[verb, "b"]).await;
        assert_eq!(refused.code, 64, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("another program"),
            "{}",
            refused.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_that_is_not_set_is_not_open() {
    let world = World::new().await;
    let busy = world
        .redlatch(&["wait", "--latch", "ready", "-w", "0s"])
        .await;
    assert_eq!(busy.code, 75, "{}", busy.stderr);
    assert!(
        busy.stderr.contains("latch ready is not set"),
        "{}",
        busy.stderr
    );
    let looks = world.server.command_count("EVALSHA");
    let mut child = world.start(&["wait", "--latch", "ready"]);
    let server = world.server.clone();
    eventually("a look at the latch", || {
        (server.command_count("EVALSHA") > looks + 1).then_some(())
    })
    .await;
    let client = world.client().await;
    let latch = client.count_down_latch("ready");
    latch.try_set_count(1).await.unwrap();
    assert!(child.try_wait().unwrap().is_none());
    latch.count_down(1).await.unwrap();
    assert_eq!(finished(child).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_asks_for_the_kind_and_the_holders_once() {
    let world = World::new().await;
    let client = world.client().await;
    let _held = client.fair_lock("a").lock().await.unwrap();
    let before = world.server.command_count("HGET");
    let busy = world.redlatch(&["wait", "a", "-w", "2s"]).await;
    assert_eq!(busy.code, 75);
    // The first look, and that for the message.
    assert_eq!(world.server.command_count("HGET") - before, 2);
}
