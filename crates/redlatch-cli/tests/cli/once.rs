//! `redlatch once`.

use serde_json::Value;

use crate::support::{World, finished, read_lines};

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_runs_once_and_the_command_is_told_about_it() {
    let world = World::new().await;
    let script = "echo $REDLATCH_NAME $REDLATCH_SLOT $REDLATCH_ATTEMPT >> runs";
    let job = |slot| ["once", "job", "--slot", slot, "--", "sh", "-c", script];
    for _ in 0..2 {
        let ran = world.redlatch(&job("w47")).await;
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (0, "", "")
        );
    }
    assert_eq!(world.redlatch(&job("w48")).await.code, 0);
    assert_eq!(read_lines(&world.file("runs")), ["job w47 1", "job w48 1"]);
    let skipped = [
        "once",
        "job",
        "--slot",
        "w48",
        "--skipped",
        "3",
        "--",
        "true",
    ];
    assert_eq!(world.redlatch(&skipped).await.code, 3);
    let last = world
        .client()
        .await
        .once("job")
        .last()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(last.slot.key(), Some("w48"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_schedules_run_their_present_slot_once() {
    let world = World::new().await;
    for (name, schedule) in [
        ("every", &["--every", "365d+1h"][..]),
        ("gap", &["--gap", "365d"]),
        ("cron", &["--cron", "0 3 1 1 *", "--tz", "Europe/Berlin"]),
    ] {
        let mut args = vec!["once", name];
        args.extend(schedule);
        args.extend(["--", "sh", "-c", "echo ran >> runs"]);
        for _ in 0..2 {
            let ran = world.redlatch(&args).await;
            assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        }
    }
    assert_eq!(read_lines(&world.file("runs")).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_leaves_the_slot_open_while_retries_remain() {
    let world = World::new().await;
    let args = ["once", "job", "--slot", "a", "--retries", "1"];
    let job = |script| {
        let mut args = args.to_vec();
        args.extend(["--", "sh", "-c", script]);
        args
    };
    assert_eq!(world.redlatch(&job("exit 3")).await.code, 3);
    assert_eq!(world.redlatch(&job("kill -USR1 $$")).await.code, 128 + 10);
    let exhausted = world.redlatch(&job("echo ran > runs")).await;
    assert_eq!(exhausted.code, 70);
    assert!(
        exhausted.stderr.contains("has used up its attempts"),
        "{}",
        exhausted.stderr
    );
    assert!(
        exhausted.stderr.contains("signal 10 ended the command"),
        "{}",
        exhausted.stderr
    );
    assert!(!world.file("runs").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_run_is_not_waited_for_and_the_report_tells_it() {
    let world = World::new().await;
    std::process::Command::new("mkfifo")
        .arg(world.file("gate"))
        .status()
        .unwrap();
    let script = "echo $$ > started; read line < gate";
    let child = world.start(&["once", "job", "--slot", "a", "--", "sh", "-c", script]);
    world.lines("started", 1).await;
    let report = world.file("report");
    let report = report.to_str().unwrap();
    let second = [
        "once", "job", "--slot", "a", "--report", report, "--", "true",
    ];
    assert_eq!(world.redlatch(&second).await.code, 0);
    let told: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(
        (&told["outcome"], &told["code"]),
        (&"under_way".into(), &0.into())
    );
    std::fs::write(world.file("gate"), "done\n").unwrap();
    assert_eq!(finished(child).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_is_told_to_end_and_has_failed() {
    let world = World::new().await;
    let script = "trap 'echo TERM > told; exit 0' TERM; while true; do sleep 0.05; done";
    let args = [
        "once",
        "job",
        "--slot",
        "a",
        "--max-run",
        "3s",
        "--",
        "sh",
        "-c",
        script,
    ];
    let over = world.redlatch(&args).await;
    assert_eq!(over.code, 124, "{}", over.stderr);
    assert_eq!(read_lines(&world.file("told")), ["TERM"]);
    let last = world
        .client()
        .await
        .once("job")
        .last()
        .await
        .unwrap()
        .unwrap();
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
        let mut args = wrong.to_vec();
        args.extend(["--", "true"]);
        let refused = world.redlatch(&args).await;
        assert_eq!(refused.code, 64, "{wrong:?}: {}", refused.stderr);
    }
    let missing = ["once", "job", "--slot", "a", "--", "no-such-command"];
    assert_eq!(world.redlatch(&missing).await.code, 127);
    assert!(
        world
            .client()
            .await
            .once("job")
            .last()
            .await
            .unwrap()
            .is_none()
    );
}
