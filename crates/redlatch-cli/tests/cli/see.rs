//! `redlatch ls`, `show` and `wait`.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{prelude::*, support::event};

#[tokio::test(flavor = "multi_thread")]
async fn names_and_applications_cannot_steer_the_terminal() {
    let world = World::new().await;
    let client = Client::builder(&world.url())
        .application("bad\x1b[2J")
        .connect();
    let client = client.await.unwrap();
    let _held = client.lock("x\x1b]0;title\x07").lock().await.unwrap();
    for args in [&["ls", "--long"][..], &["show", "x\x1b]0;title\x07"]] {
        let shown = world.redlatch(args).await.stdout;
        assert!(shown.contains("x\\u{1b}]0;title\\u{7}"), "{shown:?}");
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new().await;
    let _held = world.client().await.lock("a").lock().await.unwrap();
    let mut child = world.command("ls --json");
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    finished(child).await.ends(0).is_silent();
}

/// Nothing changes meanwhile, so nothing is written either.
#[tokio::test(flavor = "multi_thread")]
async fn what_watches_ends_when_its_reader_goes_away() {
    let world = World::new().await;
    let _held = world.client().await.lock("a").lock().await.unwrap();
    for line in ["elect boss --observe", "ls --watch --json --every 1h"] {
        let (child, mut lines) = world.watch(&world.url(), line);
        event(&mut lines).await;
        drop(lines);
        finished(child).await.ends(0).is_silent();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_goes_on_when_the_server_was_away() {
    let (world, client) = World::with_client().await;
    let way = world.way();
    let _first = client.lock("a").lock().await.unwrap();
    let (mut child, mut lines) = world.watch(&way.url(), "ls --watch --json --every 100ms");
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(event(&mut lines).await["event"], "held");
    way.black_hole();
    let silent = event(&mut lines).await;
    has(&silent, json!({"v": 1, "event": "unanswered"}));
    let (began, at) = (silent["began_ms"].as_u64(), silent["at_ms"].as_u64());
    assert!(silent["error"].is_string() && began < at, "{silent}");
    let told = errors.next_line().await.unwrap().unwrap();
    let is_whole = told.contains("no answer") && told.contains("looking again in");
    assert!(is_whole, "{told}");
    let _second = client.lock("b").lock().await.unwrap();
    way.pass();
    let mut seen = event(&mut lines).await;
    while seen["event"] == "unanswered" {
        seen = event(&mut lines).await;
    }
    assert_eq!(seen["event"], "answered");
    while seen["name"] != "b" {
        assert_ne!(seen["event"], "gone", "nothing is known to be over");
        seen = event(&mut lines).await;
    }
    assert_eq!(seen["event"], "held");
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_recording_becomes_no_page() {
    let world = World::new().await;
    fs::write(world.file("holds.jsonl"), "no line\n").unwrap();
    let refused = world.ends(64, "timeline holds.jsonl").await;
    refused.says("line 1 is no line of");
    world.ends(64, "timeline missing").await;
}
