//! `redlatch top` on a terminal.

use std::time::Duration;

use redlatch::LossCause;

use crate::{
    support::{REDLATCH, World},
    terminal::Terminal,
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
async fn top_needs_a_terminal() {
    let world = World::new().await;
    let refused = world.redlatch(&["top"]).await;
    assert_eq!(refused.code, 64);
    assert!(
        refused.stderr.contains("use ls --watch"),
        "{}",
        refused.stderr
    );
}
