//! `redlatch hold`, `release` and `break`.

use std::time::Duration;

use redlatch::{ErrorKind, HoldState, LossCause};

use crate::{
    support::{REDLATCH, World, finished},
    terminal::Terminal,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_note_of_run_is_shown_by_all_who_look() {
    let world = World::new().await;
    let script = "echo up > started; while [ ! -e stop ]; do sleep 0.05; done";
    let run = ["run", "--note", "release 7", "a", "--", "sh", "-c", script];
    let child = world.start(&run);
    world.lines("started", 1).await;
    for look in [&["ls"][..], &["show", "a"], &["wait", "a", "-w", "0s"]] {
        let seen = world.redlatch(look).await;
        let text = format!("{}{}", seen.stdout, seen.stderr);
        assert!(text.contains("): release 7"), "{look:?}: {text}");
    }
    let json = world.redlatch("ls --json").await.stdout;
    assert!(json.contains("\"note\":\"release 7\""), "{json}");
    world
        .ends(75, "run -n a -- true")
        .await
        .says("): release 7");
    let long = ["run", "-w", "1s", "--long-wait", "10ms", "a", "--", "true"];
    let long = world.ends(75, &long).await;
    let told = "waiting for 0.0s already; a is held by sh (pid ";
    long.says(told);
    std::fs::write(world.file("stop"), "").unwrap();
    finished(child).await.ends(0);
    let note = "x".repeat(257);
    world
        .ends(64, &["run", "--note", &note, "a", "--", "true"])
        .await
        .says("1 to 256 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_releases_no_later_hold() {
    let world = World::new().await;
    let held = world.redlatch("hold a --for 1h").await;
    let handle = held.stdout.trim_end().to_owned();
    let client = world.client().await;
    assert!(client.lock("a").force_release().await.unwrap());
    let other = client.lock("a").lock().await.unwrap();
    world
        .ends(76, &["release", &handle])
        .await
        .says("is over already");
    assert!(matches!(other.state(), HoldState::Held));
    for wrong in ["a", "x@a", "@a", ""] {
        world.ends(64, &["release", wrong]).await;
    }
    for wrong in ["0s", "31d", "4"] {
        world.ends(64, &["hold", "b", "--for", wrong]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_handle_cannot_be_shown_is_given_back() {
    let world = World::new().await;
    let mut child = world.start("hold a --for 1h");
    drop(child.stdout.take());
    finished(child).await.ends(125).says("a was given back");
    let client = world.client().await;
    assert!(client.lock("a").try_lock().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_has_not_the_handle_of_the_write_before_it() {
    let world = World::new().await;
    let handle = world.redlatch("hold a --write --for 1h").await;
    let handle = handle.stdout.trim().to_owned();
    world.ends(0, &["release", &handle]).await;
    let client = world.client().await;
    let reader = client.read_write_lock("a").read().await.unwrap();
    world.ends(76, &["release", &handle]).await;
    let token = handle.split('@').next().unwrap();
    world
        .redlatch(&["break", "a", "--token", token, "--now"])
        .await
        .shows("nothing to break");
    reader.extend(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_tells_the_holder_and_keeps_exclusion() {
    let world = World::new().await;
    let client = world.client().await;
    let lease = Duration::from_secs(1);
    let held = client.lock("a").lock().renewed_lease(lease).await.unwrap();
    let token = held.token().to_string();
    let broken = world.ends(0, &["break", "a", "--token", &token]).await;
    assert!(
        broken
            .stdout
            .starts_with("a is not renewed any more for other (pid")
    );
    assert_eq!(held.lost().await, LossCause::Revoked);
    world
        .ends(0, "break a --token 1")
        .await
        .shows("nothing to break");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_readers_can_be_broken() {
    let world = World::new().await;
    let (client, other) = (world.client().await, world.client().await);
    let kept = client.read_write_lock("a").read().await.unwrap();
    let lost = other.read_write_lock("a").read().await.unwrap();
    let owner = lost.owner().to_string();
    world
        .ends(64, "break a --now")
        .await
        .says("several hold it");
    world
        .ends(0, &["break", "a", "--now", "--owner", &owner])
        .await;
    let info = client.read_write_lock("a").info().await.unwrap();
    assert_eq!(info.readers, 1);
    assert!(matches!(kept.state(), HoldState::Held));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broken_without_a_token_or_a_terminal() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    world
        .ends(64, "break a")
        .await
        .says("without a terminal")
        .says(&held.token().to_string());
    let free = world.redlatch("break nix").await;
    assert_eq!(
        (free.code, free.stdout.as_str()),
        (0, "nobody holds nix: nothing to break\n")
    );
    client
        .count_down_latch("latch")
        .try_set_count(1)
        .await
        .unwrap();
    world.ends(64, "break latch").await;
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_is_asked_and_no_is_the_default() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    for (answer, told) in [
        ("\n", "nothing was broken"),
        ("yes\n", "who may still be at work"),
    ] {
        assert!(client.lock("a").is_locked().await.unwrap());
        let mut terminal = Terminal::start(&world, REDLATCH, &["break", "a", "--now"]);
        terminal.until(&held.token().to_string()).await;
        terminal.until("[y/N] ").await;
        terminal.press(answer).await;
        terminal.until(told).await;
        assert_eq!(terminal.code().await, Some(0));
    }
    assert!(!client.lock("a").is_locked().await.unwrap());
    let error = held.release().await;
    assert!(
        !matches!(&error, Err(error) if error.kind() != ErrorKind::Closed),
        "{error:?}"
    );
}
