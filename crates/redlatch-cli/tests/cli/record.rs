//! A program's own recording of its holds, drawn by `redlatch timeline`.

use std::fs::File;

use redlatch::record::Recorder;
use tracing_subscriber::{
    filter::Targets,
    layer::{Layer, SubscriberExt},
    registry,
};

use crate::prelude::*;

/// One thread: what the client does in the background is then recorded as well.
#[tokio::test]
async fn recorded_holds_are_drawn_with_renewals_losses_and_ends() {
    let world = World::new().await;
    let file = File::create(world.file("holds.jsonl")).unwrap();
    let only = Targets::new().with_target("redlatch", tracing::Level::TRACE);
    let recorder = Recorder::new(file).application("indexer");
    let guard = tracing::subscriber::set_default(registry().with(recorder.with_filter(only)));
    // With a single subscriber, tracing asks the one of the thread that comes to a call site first,
    // which is that of another test. With two it asks all.
    let second = tracing::Dispatch::new(registry());
    tracing::callsite::rebuild_interest_cache();

    let client = world.client().await;
    let second_long = Duration::from_secs(1);
    let renewed = client.lock("a").lock().renewed_lease(second_long);
    let renewed = renewed.await.unwrap();
    let short = Duration::from_millis(100);
    let lost = client.fair_lock("b").lock().lease(short).await.unwrap();
    lost.lost().await;
    let has = |event: &str| {
        let event = format!("\"event\":\"{event}\"");
        let lines = read_lines(&world.file("holds.jsonl"));
        lines.iter().any(|line| line.contains(&event))
    };
    recorded(&has, "renewed").await;
    let (kept, gone) = (renewed.token(), lost.token());
    renewed.release().await.unwrap();
    drop(lost);
    drop((guard, second));

    let lines = read_lines(&world.file("holds.jsonl"));
    let of = |token: redlatch::Token, event: &str| {
        let token = format!("\"token\":{token}");
        let event = format!("\"event\":\"{event}\"");
        let mut found = lines.iter().filter(|line| line.contains(&token));
        let found = found.find(|line| line.contains(&event));
        found.unwrap_or_else(|| panic!("{event} of {token} in {lines:#?}"))
    };
    for event in ["held", "renewed", "gone"] {
        let line = of(kept, event);
        assert!(line.contains("\"application\":\"indexer\""), "{line}");
        assert_eq!(line.contains("\"valid_ms\":"), event != "gone", "{line}");
    }
    assert!(of(gone, "lost").contains("\"cause\":\"expired\""));
    of(gone, "gone");

    let drawn = world.ends(0, "timeline holds.jsonl -o page.html").await;
    drawn.is_silent();
    let page = fs::read_to_string(world.file("page.html")).unwrap();
    for token in [kept, gone] {
        assert!(page.contains(&format!("\"token\":\"{token}\"")), "{token}");
    }
    assert!(page.contains("indexer (pid "));
    assert!(page.contains("\"expired\""));
    assert_eq!(page.matches("\"deadline\":1").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_of_a_command_has_its_hold_and_the_signals_to_it() {
    let script = "trap '' TERM; echo up >> log; while :; do sleep 0.05; done";
    let is_recorded = async |line: &str| {
        let world = World::new().await;
        let verb = line.args();
        let name = format!("n-{}", verb[0]);
        let file = format!("{name}.jsonl");
        let line = format!("{line} --record {file} {name}");
        let child = world.start(&sh(&line, script));
        world.lines("log", 1).await;
        let has = |event: &str| {
            let event = format!("\"{event}\"");
            let lines = read_lines(&world.file(&file));
            lines.iter().any(|line| line.contains(&event))
        };
        recorded(&has, "renewed").await;
        // The command does not obey TERM. It gets it if the renewal of its hold is forbidden, or if
        // it takes too long.
        let breaks = verb[0] != "once";
        if breaks {
            let broken = ["break", &name, "--token", &world.token(&name).await];
            world.ends(0, &broken).await;
        }
        recorded(&has, "KILL").await;
        if verb[0] == "elect" {
            signal(pid_of(&child), "KILL");
        }
        finished(child).await;
        for event in ["held", "renewed", "signalled"] {
            assert!(has(event), "{event} of {verb:?}");
        }
        assert_eq!(has("lost"), breaks, "{verb:?}");
        assert!(has("TERM") || verb[0] == "elect", "{verb:?}");
        let drawn = ["timeline", &file, "-o", "page.html"];
        world.ends(0, &drawn).await;
        let page = fs::read_to_string(world.file("page.html")).unwrap();
        assert!(page.contains(",\"KILL\"]"), "{verb:?}");
        assert!(page.contains(&format!("\"name\":\"{name}\"")));
    };
    tokio::join!(
        is_recorded("run --lease 3s"),
        is_recorded("once --gap 1h --lease 3s --max-run 2s"),
        is_recorded("elect --lease 3s"),
    );
    let world = World::new().await;
    let wrong = "run --record no/such/folder a -- true";
    world.ends(64, wrong).await.says("no/such/folder");
}

/// Waits until there is a line with `event`.
async fn recorded(has: &impl Fn(&str) -> bool, event: &str) {
    until(event, || has(event)).await;
}
