//! `redlatch hold`, `release` and `break`.

use std::time::Duration;

use redlatch::{ErrorKind, HoldState, LossCause};

use crate::{
    support::{REDLATCH, World, finished},
    terminal::Terminal,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_lasts_without_its_process_until_its_handle_releases_it() {
    let world = World::new().await;
    let client = world.client().await;
    for (option, name) in [(None, "a"), (Some("--fair"), "b@c"), (Some("--write"), "d")] {
        let mut args = vec!["hold", name, "--for", "4h", "--note", "db upgrade"];
        args.extend(option);
        let held = world.redlatch(&args).await;
        assert_eq!((held.code, held.stderr.as_str()), (0, ""));
        let handle = held.stdout.trim_end();
        let object = client.object(name).await.unwrap().unwrap();
        let holder = &object.holders[0];
        assert_eq!(handle, format!("{}@{name}", holder.token.unwrap()));
        assert!(
            holder.remaining > Duration::from_secs(4 * 3600 - 600),
            "{holder:?}"
        );
        let of = holder.metadata.as_ref().unwrap();
        assert!(of.application.starts_with("redlatch hold"), "{of}");
        assert_eq!(holder.note.as_deref(), Some("db upgrade"));
        let busy = world.redlatch(&args).await;
        assert_eq!(busy.code, 75);
        assert!(busy.stderr.contains("): db upgrade"), "{}", busy.stderr);

        let released = world.redlatch(&["release", handle]).await;
        assert_eq!((released.code, released.stderr.as_str()), (0, ""));
        assert_eq!(client.object(name).await.unwrap(), None);
        let again = world.redlatch(&["release", handle]).await;
        assert_eq!(again.code, 76, "{}", again.stderr);
    }
}

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
    let json = world.redlatch(&["ls", "--json"]).await.stdout;
    assert!(json.contains("\"note\":\"release 7\""), "{json}");
    let busy = world.redlatch(&["run", "-n", "a", "--", "true"]).await;
    assert_eq!(busy.code, 75);
    assert!(busy.stderr.contains("): release 7"), "{}", busy.stderr);
    let long = ["run", "-w", "1s", "--long-wait", "10ms", "a", "--", "true"];
    let long = world.redlatch(&long).await;
    assert_eq!(long.code, 75);
    let told = "waiting for 0.0s already; a is held by sh (pid ";
    assert!(long.stderr.contains(told), "{}", long.stderr);
    std::fs::write(world.file("stop"), "").unwrap();
    assert_eq!(finished(child).await.code, 0);
    let note = "x".repeat(257);
    let wrong = world
        .redlatch(&["run", "--note", &note, "a", "--", "true"])
        .await;
    assert_eq!(wrong.code, 64, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("1 to 256 bytes"), "{}", wrong.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_releases_no_later_hold() {
    let world = World::new().await;
    let held = world.redlatch(&["hold", "a", "--for", "1h"]).await;
    let handle = held.stdout.trim_end().to_owned();
    let client = world.client().await;
    assert!(client.lock("a").force_release().await.unwrap());
    let other = client.lock("a").lock().await.unwrap();
    let late = world.redlatch(&["release", &handle]).await;
    assert_eq!(late.code, 76);
    assert!(late.stderr.contains("is over already"), "{}", late.stderr);
    assert!(matches!(other.state(), HoldState::Held));
    for wrong in ["a", "x@a", "@a", ""] {
        assert_eq!(
            world.redlatch(&["release", wrong]).await.code,
            64,
            "{wrong:?}"
        );
    }
    for wrong in ["0s", "31d", "4"] {
        assert_eq!(
            world.redlatch(&["hold", "b", "--for", wrong]).await.code,
            64,
            "{wrong}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_handle_cannot_be_shown_is_given_back() {
    let world = World::new().await;
    let mut child = world.start(&["hold", "a", "--for", "1h"]);
    drop(child.stdout.take());
    let over = finished(child).await;
    assert_eq!(over.code, 125, "{}", over.stderr);
    assert!(over.stderr.contains("a was given back"), "{}", over.stderr);
    let client = world.client().await;
    assert!(client.lock("a").try_lock().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_has_not_the_handle_of_the_write_before_it() {
    let world = World::new().await;
    let handle = world
        .redlatch(&["hold", "a", "--write", "--for", "1h"])
        .await;
    let handle = handle.stdout.trim().to_owned();
    assert_eq!(world.redlatch(&["release", &handle]).await.code, 0);
    let client = world.client().await;
    let reader = client.read_write_lock("a").read().await.unwrap();
    let again = world.redlatch(&["release", &handle]).await;
    assert_eq!(again.code, 76, "{}", again.stderr);
    let token = handle.split('@').next().unwrap();
    let broken = world
        .redlatch(&["break", "a", "--token", token, "--now"])
        .await;
    assert!(
        broken.stdout.contains("nothing to break"),
        "{}",
        broken.stdout
    );
    reader.extend(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_tells_the_holder_and_keeps_exclusion() {
    let world = World::new().await;
    let client = world.client().await;
    let lease = Duration::from_secs(1);
    let held = client.lock("a").lock().renewed_lease(lease).await.unwrap();
    let token = held.token().to_string();
    let broken = world.redlatch(&["break", "a", "--token", &token]).await;
    assert_eq!(broken.code, 0, "{}", broken.stderr);
    assert!(
        broken
            .stdout
            .starts_with("a is not renewed any more for other (pid")
    );
    assert_eq!(held.lost().await, LossCause::Revoked);
    let again = world.redlatch(&["break", "a", "--token", "1"]).await;
    assert_eq!(again.code, 0);
    assert!(
        again.stdout.contains("nothing to break"),
        "{}",
        again.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_now_frees_the_name_at_once() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let token = held.token().to_string();
    let broken = world
        .redlatch(&["break", "a", "--now", "--token", &token])
        .await;
    assert!(
        broken.stdout.contains("who may still be at work"),
        "{}",
        broken.stdout
    );
    assert!(!client.lock("a").is_locked().await.unwrap());

    let pool = client.semaphore("pool").permits_if_unset(2);
    let (_one, two) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    two.release().await.unwrap();
    let id = pool.holders().await.unwrap()[0].id.clone();
    let refused = world.redlatch(&["break", "pool", "--owner", &id]).await;
    assert_eq!(refused.code, 64);
    assert!(refused.stderr.contains("add --now"), "{}", refused.stderr);
    assert_eq!(pool.available_permits().await.unwrap(), 1);
    let broken = world
        .redlatch(&["break", "pool", "--now", "--owner", &id])
        .await;
    assert_eq!(broken.code, 0, "{}", broken.stderr);
    assert_eq!(pool.available_permits().await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_readers_can_be_broken() {
    let world = World::new().await;
    let (client, other) = (world.client().await, world.client().await);
    let kept = client.read_write_lock("a").read().await.unwrap();
    let lost = other.read_write_lock("a").read().await.unwrap();
    let owner = lost.owner().to_string();
    let vague = world.redlatch(&["break", "a", "--now"]).await;
    assert_eq!(vague.code, 64);
    assert!(vague.stderr.contains("several hold it"), "{}", vague.stderr);
    let broken = world
        .redlatch(&["break", "a", "--now", "--owner", &owner])
        .await;
    assert_eq!(broken.code, 0, "{}", broken.stderr);
    let info = client.read_write_lock("a").info().await.unwrap();
    assert_eq!(info.readers, 1);
    assert!(matches!(kept.state(), HoldState::Held));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broken_without_a_token_or_a_terminal() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let refused = world.redlatch(&["break", "a"]).await;
    assert_eq!(refused.code, 64);
    assert!(
        refused.stderr.contains("without a terminal"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains(&held.token().to_string()),
        "{}",
        refused.stderr
    );
    let free = world.redlatch(&["break", "nix"]).await;
    assert_eq!(
        (free.code, free.stdout.as_str()),
        (0, "nobody holds nix: nothing to break\n")
    );
    client
        .count_down_latch("latch")
        .try_set_count(1)
        .await
        .unwrap();
    let latch = world.redlatch(&["break", "latch"]).await;
    assert_eq!(latch.code, 64, "{}", latch.stderr);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_kind_is_forgotten_once_it_is_free() {
    let world = World::new().await;
    let client = world.client().await;
    let held = client.lock("a").lock().await.unwrap();
    let refused = world.redlatch(&["forget", "a"]).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (75, ""));
    assert_eq!(
        refused.stderr,
        "redlatch: a: somebody holds it; redlatch show says who, redlatch break ends it\n"
    );
    held.release().await.unwrap();
    let fair = ["run", "--fair", "a", "--", "true"];
    let wrong = world.redlatch(&fair).await;
    assert_eq!(wrong.code, 64, "{}", wrong.stderr);
    let told = "belongs to a lock, not to a fair lock";
    assert!(wrong.stderr.contains(told), "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("redlatch forget NAME"),
        "{}",
        wrong.stderr
    );
    let forgotten = world.redlatch(&["forget", "a"]).await;
    let told = "a is forgotten; it may be of any kind now\n";
    assert_eq!((forgotten.code, forgotten.stdout.as_str()), (0, told));
    assert_eq!(world.redlatch(&fair).await.code, 0);
    let unknown = world.redlatch(&["forget", "b"]).await;
    let told = "the server knows nothing of b: nothing to forget\n";
    assert_eq!((unknown.code, unknown.stdout.as_str()), (0, told));
    let latch = client.count_down_latch("latch");
    latch.try_set_count(1).await.unwrap();
    let refused = world.redlatch(&["forget", "latch"]).await;
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("to delete it"),
        "{}",
        refused.stderr
    );
}
