//! The kill rule: the command is dead before anybody else can have the name.

use crate::support::{Wire, World, eventually, finished, is_alive, pid_of, read_lines, signal};

/// Ignores TERM, and writes the time, in ns, all the time. `date` is a process of its own, so it is
/// in the group as well.
const STUBBORN: &str = "trap '' TERM; while :; do date +%s%N >> beats; done";

/// Writes the numbers of two grandchildren and of itself.
const FAMILY: &str =
    "sleep 1000 & echo $! >> pids; sleep 1000 & echo $! >> pids; echo $$ >> pids; wait";

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_kills_the_command_before_anybody_else_has_the_name() {
    let world = World::new().await;
    let wire = Wire::to(&world).await;
    let run = [
        "run",
        "--lease",
        "12s",
        "--kill-after",
        "2s",
        "a",
        "--",
        "sh",
        "-c",
        STUBBORN,
    ];
    let child = world.command_at(&wire.url, &run).spawn().unwrap();
    world.lines("beats", 3).await;
    wire.cut();
    let next = world.start(&["run", "a", "--", "date", "+%s%N"]);
    let ended = finished(child).await;
    assert_eq!(ended.code, 76, "{}", ended.stderr);
    assert!(ended.stderr.contains("lost"), "{}", ended.stderr);
    let taken: u64 = finished(next).await.stdout.trim().parse().unwrap();
    let beats = read_lines(&world.file("beats"));
    let last: u64 = beats.last().unwrap().parse().unwrap();
    assert!(
        last < taken,
        "the command was alive {} ns after that",
        last - taken
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_and_leaders_are_dead_as_well_before_anybody_else_has_the_name() {
    for (verb, code) in [
        (&["once", "a", "--slot", "1", "--retries", "1"][..], 76),
        (&["elect", "a"], 130),
    ] {
        let world = World::new().await;
        let wire = Wire::to(&world).await;
        let times = [
            "--lease",
            "6s",
            "--kill-after",
            "1s",
            "--",
            "sh",
            "-c",
            STUBBORN,
        ];
        let first = [verb, &times[..]].concat();
        let child = world.command_at(&wire.url, &first).spawn().unwrap();
        world.lines("beats", 3).await;
        wire.cut();
        let skipped = if verb[0] == "once" {
            &["--skipped", "75"][..]
        } else {
            &[]
        };
        let next = [verb, skipped, &["--", "date", "+%s%N"]].concat();
        let taken = loop {
            let ran = world.redlatch(&next).await;
            match ran.code {
                0 => break ran.stdout.trim().parse::<u64>().unwrap(),
                other => assert_eq!(other, 75, "{}", ran.stderr),
            }
        };
        let beats = read_lines(&world.file("beats"));
        let last: u64 = beats.last().unwrap().parse().unwrap();
        assert!(
            last < taken,
            "{verb:?}: alive {} ns after that",
            last - taken
        );
        if verb[0] == "elect" {
            // It would campaign for ever.
            signal(pid_of(&child), "INT");
        }
        let ended = finished(child).await;
        assert_eq!(ended.code, code, "{verb:?}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_gives_a_job_time_to_end() {
    let world = World::new().await;
    let wire = Wire::to(&world).await;
    let polite =
        "trap 'echo told > told; exit 0' TERM; echo up > started; while :; do sleep 0.1; done";
    let job = [
        "once", "a", "--slot", "1", "--lease", "4s", "--", "sh", "-c", polite,
    ];
    let child = world.command_at(&wire.url, &job).spawn().unwrap();
    world.lines("started", 1).await;
    wire.cut();
    let ended = finished(child).await;
    assert_eq!(ended.code, 76, "{}", ended.stderr);
    assert_eq!(read_lines(&world.file("told")), ["told"]);
    let last = world.client().await.once("a").last().await.unwrap();
    assert_ne!(last.unwrap().outcome, redlatch::once::JobOutcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_gives_the_command_time_to_end() {
    let world = World::new().await;
    let wire = Wire::to(&world).await;
    let polite =
        "trap 'echo told > told; exit 0' TERM; echo up > started; while :; do sleep 0.1; done";
    let run = [
        "run", "--lease", "4s", "--report", "report", "a", "--", "sh", "-c", polite,
    ];
    let child = world.command_at(&wire.url, &run).spawn().unwrap();
    world.lines("started", 1).await;
    wire.cut();
    assert_eq!(finished(child).await.code, 76);
    assert_eq!(read_lines(&world.file("told")), ["told"]);
    let report = std::fs::read_to_string(world.file("report")).unwrap();
    assert!(
        report.contains("\"outcome\":\"lost\"") && report.contains("\"exit\":0"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ended_by_force_kills_the_command() {
    let world = World::new().await;
    let run = ["run", "--lease", "3s", "a", "--", "sh", "-c", STUBBORN];
    let child = world.start(&run);
    world.lines("beats", 1).await;
    let client = world.client().await;
    assert!(client.lock("a").force_release().await.unwrap());
    let ended = finished(child).await;
    assert_eq!(ended.code, 76);
    assert!(ended.stderr.contains("ended by force"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_renewal_gives_the_command_time_to_end() {
    let world = World::new().await;
    let polite = "trap 'echo told > told; sleep 0.2; echo over >> told; exit 0' TERM; \
         echo up > started; while :; do sleep 0.1; done";
    let run = [
        "run",
        "--lease",
        "12s",
        "--kill-after",
        "5s",
        "a",
        "--",
        "sh",
        "-c",
        polite,
    ];
    let child = world.start(&run);
    world.lines("started", 1).await;
    let token = world.client().await.lock("a").info().await.unwrap();
    let token = token.unwrap().token.to_string();
    let broken = world.redlatch(&["break", "a", "--token", &token]).await;
    assert_eq!(broken.code, 0, "{}", broken.stderr);
    let ended = finished(child).await;
    assert_eq!(ended.code, 76, "{}", ended.stderr);
    assert!(ended.stderr.contains("exit code 0"), "{}", ended.stderr);
    assert_eq!(read_lines(&world.file("told")), ["told", "over"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_renewal_kills_a_command_that_does_not_end_before_anybody_has_the_name() {
    let world = World::new().await;
    let run = [
        "run",
        "--lease",
        "6s",
        "--kill-after",
        "1s",
        "a",
        "--",
        "sh",
        "-c",
        STUBBORN,
    ];
    let child = world.start(&run);
    world.lines("beats", 1).await;
    let lock = world.client().await.lock("a");
    assert!(lock.force_release().after_lease().await.unwrap());
    let next = world.start(&["run", "a", "--", "date", "+%s%N"]);
    let ended = finished(child).await;
    assert_eq!(ended.code, 76, "{}", ended.stderr);
    assert!(ended.stderr.contains("signal 9"), "{}", ended.stderr);
    let taken: u64 = finished(next).await.stdout.trim().parse().unwrap();
    let beats = read_lines(&world.file("beats"));
    let last: u64 = beats.last().unwrap().parse().unwrap();
    assert!(last < taken, "alive {} ns after that", last - taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_hold_outlives_its_lease() {
    let world = World::new().await;
    let script = "sleep 3; echo done";
    let ended = world
        .redlatch(&["run", "--lease", "1s", "a", "--", "sh", "-c", script])
        .await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "done\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_group_is_alive_after_the_wrapper_was_killed() {
    let world = World::new().await;
    let child = world.start(&["run", "a", "--", "sh", "-c", FAMILY]);
    let pids = world.lines("pids", 3).await;
    assert!(pids.iter().all(|pid| is_alive(pid)));
    signal(pid_of(&child), "KILL");
    all_dead(&pids).await;
    let guardian = finished(child).await.stderr;
    assert!(guardian.contains("its command was killed"), "{guardian}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_group_is_alive_after_the_wrapper_was_stopped_for_a_lease() {
    let world = World::new().await;
    let child = world.start(&["run", "--lease", "3s", "a", "--", "sh", "-c", FAMILY]);
    let pids = world.lines("pids", 3).await;
    signal(pid_of(&child), "STOP");
    let next = world.start(&["run", "a", "--", "echo", "mine"]);
    all_dead(&pids).await;
    assert_eq!(finished(next).await.stdout, "mine\n");
    signal(pid_of(&child), "CONT");
    assert_eq!(finished(child).await.code, 76);
}

/// As after a suspension of the machine: all processes stand still, and somebody else has the name.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_was_suspended_beyond_the_deadline_does_nothing_more() {
    let world = World::new().await;
    let script = "trap 'echo told >> told' TERM; echo $$ >> pids; \
         while :; do echo beat >> beats; done";
    let child = world.start(&["run", "--lease", "3s", "a", "--", "sh", "-c", script]);
    let command = world.lines("pids", 1).await.remove(0);
    let (wrapper, guardian) = (pid_of(&child), guardian_of(&pid_of(&child)).unwrap());
    for pid in [&command, &wrapper, &guardian] {
        signal(pid, "STOP");
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        eventually("the process to be stopped", || {
            state().contains(") T ").then_some(())
        })
        .await;
    }
    let next = world.redlatch(&["run", "a", "--", "echo", "mine"]).await;
    assert_eq!(next.stdout, "mine\n");
    let beats = read_lines(&world.file("beats")).len();
    for pid in [&wrapper, &guardian, &command] {
        // The command may be dead already.
        let _ = std::process::Command::new("kill")
            .arg("-CONT")
            .arg(pid)
            .status();
    }
    let ended = finished(child).await;
    assert_eq!(ended.code, 76, "{}", ended.stderr);
    assert!(ended.stderr.contains("signal 9"), "{}", ended.stderr);
    assert!(!world.file("told").exists(), "KILL comes first");
    println!(
        "beats after that: {}",
        read_lines(&world.file("beats")).len() - beats
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_guardian_is_replaced() {
    let world = World::new().await;
    let child = world.start(&["run", "a", "--", "sh", "-c", FAMILY]);
    let pids = world.lines("pids", 3).await;
    let first = guardian_of(&pid_of(&child)).unwrap();
    signal(&first, "KILL");
    eventually("another guardian", || {
        guardian_of(&pid_of(&child)).filter(|second| *second != first)
    })
    .await;
    signal(pid_of(&child), "KILL");
    all_dead(&pids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guardian_that_was_stopped_kills_by_no_outdated_deadline() {
    let world = World::new().await;
    let beats = "while [ ! -e stop ]; do echo beat >> beats; sleep 0.05; done";
    let child = world.start(&["run", "--lease", "1s", "a", "--", "sh", "-c", beats]);
    world.lines("beats", 1).await;
    let guardian = guardian_of(&pid_of(&child)).unwrap();
    signal(&guardian, "STOP");
    // Forty beats take two seconds at least, which is two leases.
    world.lines("beats", 41).await;
    signal(&guardian, "CONT");
    let before = read_lines(&world.file("beats")).len();
    world.lines("beats", before + 10).await;
    std::fs::write(world.file("stop"), "").unwrap();
    assert_eq!(finished(child).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guardian_outlives_signals_to_everything() {
    let world = World::new().await;
    let child = world.start(&[
        "run",
        "a",
        "--",
        "sh",
        "-c",
        &format!("trap '' TERM; {FAMILY}"),
    ]);
    let pids = world.lines("pids", 3).await;
    let guardian = guardian_of(&pid_of(&child)).unwrap();
    for name in ["TERM", "HUP", "INT", "QUIT"] {
        signal(&guardian, name);
    }
    signal(pid_of(&child), "KILL");
    all_dead(&pids).await;
}

async fn all_dead(pids: &[String]) {
    eventually("the group to be dead", || {
        (!pids.iter().any(|pid| is_alive(pid))).then_some(())
    })
    .await;
}

/// Returns the live process that guards for `pid`.
fn guardian_of(pid: &str) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let is_guardian = |child: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.contains("__guardian") && is_alive(child)
    };
    children
        .split_whitespace()
        .find(is_guardian)
        .map(str::to_owned)
}
