//! `redlatch hold`, `release` and `break`.

use redlatch::{ErrorKind, HoldState};

use crate::prelude::*;

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
    let busy = world.ends(75, "run -n a -- true").await;
    busy.says("): release 7");
    let long = world.ends(75, "run -w 1s --long-wait 10ms a -- true").await;
    long.says("waiting for 0.0s already; a is held by sh (pid ");
    world.stop();
    finished(child).await.ends(0);
    let long = format!("run --note {} a -- true", "x".repeat(257));
    world.ends(64, &long).await.says("1 to 256 bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_releases_no_later_hold() {
    let world = World::new().await;
    let held = world.redlatch("hold a --for 1h").await;
    let handle = held.stdout.trim_end().to_owned();
    let client = world.client().await;
    assert!(client.lock("a").force_release().await.unwrap());
    let other = client.lock("a").lock().await.unwrap();
    let over = world.ends(66, &["release", &handle]).await;
    over.says("is over already");
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
async fn a_signal_before_the_handle_is_shown_gives_the_name_back() {
    let world = World::new().await;
    let (way, client) = (world.way(), world.client().await);
    let known = client.lock("known").lock().await.unwrap();
    known.release().await.unwrap();
    let lost = lose_replies(&way, "a", TAKES);
    let child = world.start_at(&way.url(), "hold a --for 1h");
    lost.answered().await;
    assert!(client.lock("a").is_locked().await.unwrap());
    ended_by("INT", child).await.ends(128 + 2).prints("");
    world.free("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_has_not_the_handle_of_the_write_before_it() {
    let world = World::new().await;
    let handle = world.redlatch("hold a --write --for 1h").await;
    let handle = handle.stdout.trim().to_owned();
    world.ends(0, &["release", &handle]).await;
    let client = world.client().await;
    let reader = client.read_write_lock("a").read().await.unwrap();
    world.ends(66, &["release", &handle]).await;
    let token = handle.split('@').next().unwrap();
    let now = ["break", "a", "--token", token, "--now"];
    world.ends(66, &now).await.says("nothing to break");
    reader.extend(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_tells_the_holder_and_keeps_exclusion() {
    let (world, client) = World::with_client().await;
    let lease = Duration::from_secs(1);
    let held = client.lock("a").lock().renewed_lease(lease).await.unwrap();
    let token = held.token().to_string();
    let broken = world.ends(0, &["break", "a", "--token", &token]).await;
    let told = "a is not renewed any more for other (pid";
    assert!(broken.stdout.starts_with(told), "{broken:?}");
    assert_eq!(held.lost().await, LossCause::Revoked);
    let wrong = world.ends(66, "break a --token 1").await;
    wrong.says("nothing to break");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_readers_can_be_broken() {
    let world = World::new().await;
    let (client, other) = (world.client().await, world.client().await);
    let kept = client.read_write_lock("a").read().await.unwrap();
    let lost = other.read_write_lock("a").read().await.unwrap();
    let owner = lost.owner().to_string();
    let both = world.ends(64, "break a --now").await;
    both.says("several hold it");
    let one = ["break", "a", "--now", "--owner", &owner];
    world.ends(0, &one).await;
    let info = client.read_write_lock("a").info().await.unwrap();
    assert_eq!(info.readers, 1);
    assert!(matches!(kept.state(), HoldState::Held));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broken_without_a_token_or_a_terminal() {
    let (world, client) = World::with_client().await;
    let held = client.lock("a").lock().await.unwrap();
    let refused = world.ends(64, "break a").await;
    refused.says("without a terminal");
    refused.says(&held.token().to_string());
    let free = world.ends(66, "break nix").await;
    free.says("nix is not held: nothing to break\n");
    let latch = client.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    world.ends(64, "break latch").await;
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_is_asked_and_no_is_the_default() {
    let (world, client) = World::with_client().await;
    let held = client.lock("a").lock().await.unwrap();
    for (answer, told) in [
        ("\n", "nothing was broken"),
        ("yes\n", "who may still be at work"),
    ] {
        assert!(client.lock("a").is_locked().await.unwrap());
        let mut terminal = Terminal::redlatch(&world, "break a --now");
        terminal.until(&held.token().to_string()).await;
        terminal.until("[y/N] ").await;
        terminal.press(answer).await;
        terminal.until(told).await;
        assert_eq!(terminal.code().await, Some(0));
    }
    assert!(!client.lock("a").is_locked().await.unwrap());
    let error = held.release().await;
    let fits = !matches!(&error, Err(error) if error.kind() != ErrorKind::Closed);
    assert!(fits, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_is_shown_and_its_command_is_told_by_whom_and_why() {
    let (world, client) = World::with_client().await;
    let why = "redlatch break by me (pid ";
    for (number, (verb, how)) in [
        ("run", ""),
        ("run --fair", ""),
        ("run --write", ""),
        ("run --read", ""),
        ("elect", ""),
        ("run", "--now"),
        ("run --permits 1 --of 1", "--now"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("name-{number}");
        // The hold is broken long before a renewal. The command goes on until the test has looked.
        let script = format!(
            "trap 'until [ -e {name}.seen ]; do sleep 0.1; done; exit 0' TERM; echo up >> {name}; while :; do sleep 0.1; done"
        );
        let line = format!("{verb} --lease 30s {name}");
        let child = world.start(&sh(&line, &script));
        world.lines(&name, 1).await;
        let held = client.object(&name).await.unwrap().unwrap();
        let owner = &held.holders[0].owner;
        let mut broken = world.command(&["break", &name, "--owner", owner, "--note", "release 7"]);
        broken.env_remove("SUDO_USER").env("USER", "me");
        broken.args(how.args());
        output(&mut broken).await.ends(0);
        if how.is_empty() {
            for look in ["ls", "show"] {
                let shown = world.redlatch(&[look, &name]).await;
                let told = format!("not renewed any more, by {why}");
                shown.shows(&told).shows(": release 7");
            }
            let shown = json(&world.redlatch(&["show", "--json", &name]).await.stdout);
            let by = shown["holders"][0]["broken"].as_str().unwrap();
            assert!(by.starts_with(why), "{line}: {by}");
        }
        fs::write(world.file(&format!("{name}.seen")), "").unwrap();
        if verb == "elect" {
            // The command would campaign for ever.
            world.lines(&name, 2).await;
            ended_by("TERM", child).await.says(why);
            continue;
        }
        let ended = finished(child).await;
        ended.ends(76).says(why).says(": release 7");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_permits_is_set_and_a_different_wish_is_told() {
    let world = World::new().await;
    let run = "run --permits 1 --of 8 s -- true";
    world.ends(0, run).await.is_silent();
    world.ends(0, "resize s 5").await.shows("s has 5 permits");
    let changed = world.ends(0, run).await;
    changed.says("s has 5 permits, and --of 8 does not change that");
    let client = world.client().await;
    assert_eq!(client.semaphore("s").permits().await.unwrap(), 5);
    let ids = client.permit_expirable_semaphore("ids");
    ids.set_permits(1).await.unwrap();
    world.ends(0, "resize ids 3").await;
    assert_eq!(ids.permits().await.unwrap(), 3);
    // The advice is about the command, and not about the library.
    let _held = client.lock("a").lock().await.unwrap();
    let unset = "say how many with --of or redlatch resize";
    for (line, advice) in [
        ("resize a 3", "redlatch forget NAME"),
        ("run --fair a -- true", "redlatch forget NAME"),
        ("run --permits 6 s -- true", "redlatch resize changes that"),
        ("run --permits 1 unset -- true", unset),
    ] {
        let ended = world.ends(64, line).await;
        ended.says(advice);
        for of_programs in ["Client::", "set_permits", "permits_if_unset"] {
            assert!(!ended.stderr.contains(of_programs), "{ended:?}");
        }
    }
}
