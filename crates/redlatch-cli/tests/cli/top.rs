//! `redlatch top` on a terminal.

use std::time::Duration;

use redlatch::LossCause;

use crate::{
    support::{REDLATCH, World, signal},
    terminal::Terminal,
    wire::Wire,
};

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_filters_and_breaks_after_asking() {
    let world = World::new().await;
    let client = world.client().await;
    let lease = Duration::from_secs(1);
    let lock = client.lock("alpha");
    let held = lock.lock().renewed_lease(lease).await.unwrap();
    let _other = client.fair_lock("omega").lock().await.unwrap();
    let mut screen = vt100::Parser::new(24, 140, 0);
    let mut top = Terminal::start_sized(&world, REDLATCH, &["top", "--every", "100ms"], (24, 140));
    for text in ["2 objects, 2 holds", "alpha", "█", "omega", "q quit"] {
        top.until_seen(&mut screen, text).await;
    }
    for (keys, text) in [
        ("/alp\r", "showing \"alp\""),
        ("b", "forbid the renewal of alpha for other"),
        ("n", "nothing was broken"),
        ("b", "forbid the renewal of alpha for other"),
        ("y", "alpha is not renewed any more"),
    ] {
        top.press(keys).await;
        top.until_seen(&mut screen, text).await;
        assert!(
            !screen.screen().contents().contains("omega"),
            "it is filtered out"
        );
    }
    assert_eq!(held.lost().await, LossCause::Revoked);
    top.press("q").await;
    assert_eq!(top.code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_act_while_a_look_is_not_answered() {
    let world = World::new().await;
    let wire = Wire::to(&world).await;
    let mut screen = vt100::Parser::new(24, 140, 0);
    let top = ["top", "--every", "100ms", "--url", &wire.url];
    let mut top = Terminal::start_sized(&world, REDLATCH, &top, (24, 140));
    top.until_seen(&mut screen, "q quit").await;
    wire.cut();
    wire.asked().await;
    top.press("/alp").await;
    top.until_seen(&mut screen, "/alp").await;
    top.press("\r").await;
    // The key ends the display, and not the end of the look, which would be shown first.
    top.press("q").await;
    assert_eq!(top.rest(&mut screen).await, Some(0));
    let seen = screen.screen().contents();
    assert!(!seen.contains("server"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_gives_the_terminal_back() {
    let world = World::new().await;
    let script = format!(
        "sh -c 'echo $$ > pid; exec {REDLATCH} top'; echo code $?; \
         stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e -icanon"
    );
    let mut shell = Terminal::start_sized(&world, "sh", &["-c", &script], (24, 140));
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
