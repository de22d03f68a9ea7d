//! `redlatch once`.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_runs_once_and_the_command_is_told_about_it() {
    let world = World::new().await;
    let script = "echo $REDLATCH_NAME $REDLATCH_SLOT $REDLATCH_ATTEMPT >> runs";
    let job = |slot| ["once", "job", "--slot", slot, "--", "sh", "-c", script];
    for _ in 0..2 {
        world.ends(0, &job("w47")).await.prints("");
    }
    world.ends(0, &job("w48")).await;
    assert_eq!(read_lines(&world.file("runs")), ["job w47 1", "job w48 1"]);
    let skips = "once job --slot w48 --skipped 3 -- true";
    world.ends(3, skips).await;
    assert_eq!(world.last_run().await.unwrap().slot.key(), Some("w48"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_leaves_the_slot_open_while_retries_remain() {
    let world = World::new().await;
    let job = |script| sh("once job --slot a --retries 1", script);
    world.ends(3, &job("exit 3")).await;
    world.ends(128 + 10, &job("kill -USR1 $$")).await;
    let used_up = world.ends(70, &job("echo ran > runs")).await;
    used_up.says("has used up its attempts");
    used_up.says("signal 10 ended the command");
    assert!(!world.file("runs").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_run_is_not_waited_for_and_the_report_tells_it() {
    let world = World::new().await;
    world.pipe("gate");
    let script = "echo $$ > started; read line < gate";
    let child = world.start(&sh("once job --slot a", script));
    world.lines("started", 1).await;
    let other = "once job --slot a --report report -- true";
    world.ends(0, other).await;
    has(&world.report(), json!({"outcome": "under_way", "code": 0}));
    fs::write(world.file("gate"), "done\n").unwrap();
    finished(child).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_before_the_claim_is_answered_uses_up_no_attempt() {
    let world = World::new().await;
    let way = world.way();
    world.ends(0, "once known --slot a -- true").await;
    let lost = lose_replies(&way, "job", TAKES);
    let once = "once job --slot a --retries 0 -- touch ran";
    let url = format!("{}?patience=1h", way.url());
    let child = world.start_at(&url, once);
    lost.answered().await;
    ended_by("TERM", child).await.ends(128 + 15);
    let job = world.client().await.once("job");
    while job.holder().await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    assert!(world.last_run().await.is_none());
    assert!(!world.file("ran").exists());
    // The only attempt is left.
    world.ends(0, once).await;
    assert!(world.file("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_is_told_to_end_and_has_failed() {
    let world = World::new().await;
    let script = "trap 'echo TERM > told; exit 0' TERM; while true; do sleep 0.05; done";
    let args = sh("once job --slot a --max-run 3s", script);
    world.ends(124, &args).await;
    assert_eq!(read_lines(&world.file("told")), ["TERM"]);
    let last = world.last_run().await.unwrap();
    assert!(last.error.unwrap().contains("--max-run"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_schedules_are_refused() {
    let world = World::new().await;
    for wrong in [
        &["once", "job"][..],
        &["once", "job", "--every", "1d", "--gap", "1h"],
        &["once", "job", "--every", "1"],
        &["once", "job", "--cron", "0 3 * * *"],
        &["once", "job", "--cron", "0 3 * * *", "--tz", "Mars/Olympus"],
        &["once", "job", "--cron", "whenever", "--tz", "UTC"],
    ] {
        world.ends(64, &[wrong, &["--", "true"]].concat()).await;
    }
    let missing = "once job --slot a -- no-such-command";
    world.ends(127, missing).await;
    assert!(world.last_run().await.is_none());
}
