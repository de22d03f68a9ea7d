//! `redlatch top` on a terminal.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_filters_and_breaks_after_asking() {
    let (world, client) = World::with_client().await;
    let lease = Duration::from_secs(1);
    let lock = client.lock("alpha");
    let held = lock.lock().renewed_lease(lease).await.unwrap();
    let _other = client.fair_lock("omega").lock().await.unwrap();
    let args = ["top", "--every", "100ms"];
    let mut top = Terminal::start(&world, REDLATCH, &args, (24, 140));
    for text in ["2 objects, 2 holds", "alpha", "█", "omega", "q quit"] {
        top.until_seen(text).await;
    }
    for (keys, text) in [
        ("/alp\r", "showing \"alp\""),
        ("b", "forbid the renewal of alpha for other"),
        ("n", "nothing was broken"),
        ("b", "forbid the renewal of alpha for other"),
        ("y", "alpha is not renewed any more"),
    ] {
        top.press(keys).await;
        top.until_seen(text).await;
        assert!(!top.seen().contains("omega"), "it is filtered out");
    }
    assert_eq!(held.lost().await, LossCause::Revoked);
    top.press("q").await;
    assert_eq!(top.code().await, Some(0));
}

/// Finished jobs and free permits stand below what is held, and narrow displays keep the holder.
#[tokio::test(flavor = "multi_thread")]
async fn holds_come_first_and_are_shown_with_their_holder_at_any_width() {
    let world = World::new().await;
    world.ends(0, "once a-job --slot 1 -- true").await;
    let client = world.client().await;
    let first = client.fair_lock("deploy-production").lock();
    let _first = first.note("release 7").await.unwrap();
    let _second = client.lock("catalogue").lock().await.unwrap();
    let semaphore = client.semaphore("crawler").permits_if_unset(8);
    let _permits = semaphore.acquire_many(3).await.unwrap();
    client.semaphore("idle").set_permits(1).await.unwrap();
    let pid = std::process::id();
    for width in [46, 80, 100, 160] {
        let mut top = Terminal::start(&world, REDLATCH, &["top"], (12, width));
        top.until_seen("a-job").await;
        let seen = top.seen();
        println!("{width}\n{seen}\n");
        let lines: Vec<_> = seen.lines().skip(1).collect();
        let has_titles = lines[0].starts_with("NAME") && lines[0].contains("HELD BY");
        assert!(has_titles, "{seen}");
        assert_eq!(lines[0].contains("FOR"), width >= 100, "{seen}");
        assert_eq!(seen.contains('█'), width == 160, "{seen}");
        let names = ["deploy-production", "catalogue", "crawler", "a-job", "idle"];
        for (line, name) in lines[1..].iter().zip(names) {
            assert!(line.starts_with(name), "{seen}");
            let is_held = line.contains(&format!("other (pid {pid} on "));
            assert_eq!(is_held, !["a-job", "idle"].contains(&name), "{seen}");
        }
        top.press("h").await;
        top.until_seen("h all").await;
        assert!(!top.seen().contains("a-job"));
        top.press("\r").await;
        top.until_seen("enter back").await;
        let details = top.seen();
        println!("{details}\n");
        for text in ["NAME     deploy-production", "release 7", "TOKEN", "OWNER"] {
            assert!(details.contains(text), "{text}: {details}");
        }
        top.press("qq").await;
        assert_eq!(top.code().await, Some(0));
    }
    let mut top = Terminal::start(&world, REDLATCH, &["top", "--held"], (12, 80));
    top.until_seen("catalogue").await;
    assert!(!top.seen().contains("a-job"));
    top.press("q").await;
    assert_eq!(top.code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_act_while_a_look_is_not_answered() {
    let world = World::new().await;
    let way = world.way();
    let url = way.url();
    let top = ["top", "--every", "100ms", "--url", &url];
    let mut top = Terminal::start(&world, REDLATCH, &top, (24, 140));
    top.until_seen("q quit").await;
    way.black_hole();
    until("a look", || way.vanished() > 0).await;
    top.press("/alp").await;
    top.until_seen("/alp").await;
    top.press("\r").await;
    // The key ends the display, and not the end of the look, which would be shown first.
    top.press("q").await;
    let (code, seen) = top.rest().await;
    assert_eq!(code, Some(0));
    assert!(!seen.contains("server"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_gives_the_terminal_back() {
    let world = World::new().await;
    let script = format!(
        "sh -c 'echo $$ > pid; exec {REDLATCH} top'; echo code $?; \
         stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e -icanon"
    );
    let mut shell = Terminal::start(&world, "sh", &["-c", &script], (24, 140));
    // Spaces are drawn by moves of the cursor.
    shell.until("quit").await;
    let pid = world.lines("pid", 1).await.remove(0);
    signal(&pid, "TERM");
    // It leaves the other screen, and lines are edited again.
    shell.until("\x1b[?1049l").await;
    shell.until("code 143").await;
    shell.until("\nicanon").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn top_needs_a_terminal() {
    let world = World::new().await;
    world.ends(64, "top").await.says("use ls --watch");
}
