//! The kill rule: the command is dead before anybody else can have the name.

use redlatch_tests::wait::eventually;

use crate::prelude::*;

/// Ignores TERM, and writes the time, in ns, all the time. `date` is a process of its own, so it is
/// in the group as well.
const STUBBORN: &str = "trap '' TERM; while :; do date +%s%N >> beats; done";

/// Writes the numbers of two grandchildren and of itself.
const FAMILY: &str =
    "sleep 1000 & echo $! >> pids; sleep 1000 & echo $! >> pids; echo $$ >> pids; wait";

/// Notes TERM, and ends with it.
const POLITE: &str =
    "trap 'echo told > told; exit 0' TERM; echo $$ >> started; while :; do sleep 0.1; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_kills_the_command_before_anybody_else_has_the_name() {
    tokio::join!(
        is_killed_by_silence("run a", "", 76),
        is_killed_by_silence("once a --slot 1 --retries 1", "--skipped 75", 76),
        is_killed_by_silence("elect a", "", 130),
    );
}

async fn is_killed_by_silence(verb: &str, of_next: &str, code: i32) {
    let world = World::new().await;
    let way = world.way();
    let first = format!("{verb} --lease 6s --kill-after 1s");
    let child = world.start_at(&way.url(), &sh(&first, STUBBORN));
    world.lines("beats", 3).await;
    way.black_hole();
    let next = format!("{verb} {of_next} -- date +%s%N");
    let taken = loop {
        let ran = world.redlatch(&next).await;
        match ran.code {
            0 => break ran.stdout,
            other => assert_eq!(other, 75, "{}", ran.stderr),
        }
    };
    assert_last_beat_before(&world, &taken);
    if verb == "elect a" {
        // The command would campaign for ever.
        signal(pid_of(&child), "INT");
    }
    let ended = finished(child).await;
    ended.ends(code);
    assert!(code != 76 || ended.stderr.contains("lost: "), "{ended:?}");
}

/// With a lease this long, the kill rule alone would look at the hold after minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_end_ends_the_command_at_once() {
    let is_told = async |verb: &str, by: &str| {
        let world = World::new().await;
        let child = world.start(&sh(&format!("{verb} --lease 1h"), POLITE));
        let first = world.lines("started", 1).await.remove(0);
        let token = world.token("a").await;
        let end = format!("break a --token {token} {by}");
        world.ends(0, &end).await;
        if verb == "elect a" {
            // It leads again, and the first command is dead by then.
            world.lines("started", 2).await;
            assert!(!is_alive(&first));
            signal(pid_of(&child), "TERM");
        }
        finished(child).await
    };
    let (after_lease, now, term) = tokio::join!(
        is_told("run a", ""),
        is_told("run a", "--now"),
        is_told("elect a", "--now"),
    );
    after_lease.ends(76).says("ended by force");
    now.ends(76).says("ended by force");
    // The second command has ended as TERM asks, and its own term was not lost.
    term.ends(0);
}

/// Asserts that nothing of the command was alive any more when the next one printed the time.
fn assert_last_beat_before(world: &World, next: &str) {
    let taken: u64 = next.trim().parse().unwrap();
    let beats = read_lines(&world.file("beats"));
    let last: u64 = beats.last().unwrap().parse().unwrap();
    assert!(last < taken, "alive {} ns after that", last - taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_gives_command_and_job_time_to_end() {
    let is_told = async |line: &str| {
        let world = World::new().await;
        let way = world.way();
        let child = world.start_at(&way.url(), &sh(line, POLITE));
        world.lines("started", 1).await;
        way.black_hole();
        finished(child).await.ends(76);
        assert_eq!(read_lines(&world.file("told")), ["told"]);
        has(&world.report(), json!({"outcome": "lost", "exit": 0}));
        if line.starts_with("once") {
            let last = world.client().await.once("a").last().await.unwrap();
            assert_ne!(last.unwrap().outcome, redlatch::once::JobOutcome::Done);
        }
    };
    tokio::join!(
        is_told("run --lease 4s --report report a"),
        is_told("once --lease 4s --report report a --slot 1"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ended_by_force_kills_the_command() {
    let world = World::new().await;
    let child = world.start(&sh("run --lease 3s a", STUBBORN));
    world.lines("beats", 1).await;
    let client = world.client().await;
    assert!(client.lock("a").force_release().await.unwrap());
    finished(child).await.ends(76).says("ended by force");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_renewal_gives_command_and_leader_time_to_end() {
    let is_told = async |verb: &str, code: i32| {
        let world = World::new().await;
        let polite = "trap 'echo told >> told; sleep 0.2; echo over >> told; exit 0' TERM; \
             echo $$ >> started; while [ ! -e stop ]; do sleep 0.05; done";
        let line = format!("{verb} --lease 12s --kill-after 5s --note reindex a");
        let child = world.start(&sh(&line, polite));
        world.lines("started", 1).await;
        let holder = world.holder("a").await;
        assert_eq!(holder.note.as_deref(), Some("reindex"));
        let token = holder.token.unwrap().to_string();
        world.ends(0, &["break", "a", "--token", &token]).await;
        if verb.starts_with("elect") {
            // It leads again once the command has ended.
            world.lines("started", 2).await;
            world.stop();
        }
        finished(child).await.ends(code).says("exit code 0");
        assert_eq!(read_lines(&world.file("told")), ["told", "over"]);
    };
    tokio::join!(is_told("run", 76), is_told("elect --pause 10ms", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_renewal_kills_a_command_that_does_not_end_before_anybody_has_the_name() {
    let world = World::new().await;
    let run = sh("run --lease 6s --kill-after 1s a", STUBBORN);
    let child = world.start(&run);
    world.lines("beats", 1).await;
    let lock = world.client().await.lock("a");
    assert!(lock.force_release().after_lease().await.unwrap());
    let next = world.start("run a -- date +%s%N");
    finished(child).await.ends(76).says("signal 9");
    assert_last_beat_before(&world, &finished(next).await.stdout);
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
async fn the_guardian_gives_the_names_of_a_killed_wrapper_back_when_its_command_is_dead() {
    let (world, client) = World::with_client().await;
    for (verb, names) in [
        ("run", "plain other"),
        ("run --fair", "fair"),
        ("run --write", "write"),
        ("run --read", "read"),
        ("run --permits 1 --of 1", "permits"),
        ("elect", "boss"),
    ] {
        let _ = fs::remove_file(world.file("beats"));
        let child = world.start(&sh(&format!("{verb} --lease 1h {names}"), STUBBORN));
        world.lines("beats", 3).await;
        signal(pid_of(&child), "KILL");
        let first = names.split(' ').next().unwrap();
        let is_free = async || {
            let object = client.object(first).await.unwrap();
            object.is_none_or(|object| object.holders.is_empty())
        };
        eventually(verb, GENEROUS, is_free).await;
        let beats = read_lines(&world.file("beats")).len();
        finished(child).await;
        assert_eq!(read_lines(&world.file("beats")).len(), beats, "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_dies_if_wrapper_and_guardian_are_killed_at_once() {
    let world = World::new().await;
    let child = world.start(&sh("run a", "echo $$ > pid; while :; do sleep 0.1; done"));
    let command = world.lines("pid", 1).await;
    let (wrapper, guardian) = (pid_of(&child), guardian_of(&pid_of(&child)).unwrap());
    // A stopped one replaces no guardian.
    for (pid, name) in [(&wrapper, "STOP"), (&guardian, "KILL"), (&wrapper, "KILL")] {
        signal(pid, name);
    }
    all_dead(&command).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_group_is_alive_after_the_wrapper_was_stopped_for_a_lease() {
    let world = World::new().await;
    let child = world.start(&["run", "--lease", "3s", "a", "--", "sh", "-c", FAMILY]);
    let pids = world.lines("pids", 3).await;
    signal(pid_of(&child), "STOP");
    let next = world.start("run a -- echo mine");
    all_dead(&pids).await;
    assert_eq!(finished(next).await.stdout, "mine\n");
    ended_by("CONT", child).await.ends(76);
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
        suspend(pid).await;
    }
    let next = world.redlatch("run a -- echo mine").await;
    assert_eq!(next.stdout, "mine\n");
    let beats = read_lines(&world.file("beats")).len();
    for pid in [&wrapper, &guardian, &command] {
        // The command may be dead already.
        let mut kill = std::process::Command::new("kill");
        let _ = kill.arg("-CONT").arg(pid).status();
    }
    finished(child).await.ends(76).says("signal 9");
    assert!(!world.file("told").exists(), "KILL comes first");
    let after = read_lines(&world.file("beats")).len() - beats;
    println!("beats after that: {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_guardian_is_replaced() {
    let world = World::new().await;
    let child = world.start(&["run", "a", "--", "sh", "-c", FAMILY]);
    let pids = world.lines("pids", 3).await;
    let first = guardian_of(&pid_of(&child)).unwrap();
    signal(&first, "KILL");
    let is_another = || guardian_of(&pid_of(&child)).is_some_and(|second| second != first);
    until("another guardian", is_another).await;
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
    world.stop();
    finished(child).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guardian_outlives_signals_to_everything() {
    let world = World::new().await;
    let child = world.start(&sh("run a", &format!("trap '' TERM; {FAMILY}")));
    let pids = world.lines("pids", 3).await;
    let guardian = guardian_of(&pid_of(&child)).unwrap();
    for name in ["TERM", "HUP", "INT", "QUIT"] {
        signal(&guardian, name);
    }
    signal(pid_of(&child), "KILL");
    all_dead(&pids).await;
}

async fn all_dead(pids: &[String]) {
    let is_dead = || !pids.iter().any(|pid| is_alive(pid));
    until("the group to be dead", is_dead).await;
}

/// Returns the live process that guards for `pid`.
fn guardian_of(pid: &str) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let is_guardian = |child: &&str| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.contains("__guardian") && is_alive(child)
    };
    let found = children.split_whitespace().find(is_guardian);
    found.map(str::to_owned)
}
