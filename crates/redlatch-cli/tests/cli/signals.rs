//! Signals to the wrapper and to the command.

use crate::prelude::*;

/// Writes the signals that it gets. `wait` returns for each.
const LISTENER: &str = "trap 'echo TERM >> got' TERM; trap 'echo INT >> got' INT; \
     trap 'echo HUP >> got' HUP; echo $$ > started; \
     while [ ! -e stop ]; do sleep 0.05; done; exit 5";

/// Becomes its arguments, with the default actions of signals.
const DEFAULTS: &str = "import os, signal, sys
for one in (signal.SIGHUP, signal.SIGPIPE): signal.signal(one, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])";

#[tokio::test(flavor = "multi_thread")]
async fn term_int_and_hup_are_forwarded() {
    let world = World::new().await;
    // The tests themselves may run with HUP ignored, for instance by `nohup`.
    let mut command = world.command_through(&["python3", "-c", DEFAULTS]);
    command.args(["run", "a", "--", "sh", "-c", LISTENER]);
    let child = command.spawn().unwrap();
    world.lines("started", 1).await;
    for (count, name) in ["TERM", "INT", "HUP"].into_iter().enumerate() {
        signal(pid_of(&child), name);
        let got = world.lines("got", count + 1).await;
        assert_eq!(got[count], name);
    }
    world.stop();
    finished(child).await.ends(5);
    assert_eq!(read_lines(&world.file("got")).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_stop_of_wrapper_or_command_ends_nothing() {
    let world = World::new().await;
    let beats = "trap '' TERM; echo $$ > started; \
         while [ ! -e stop ]; do echo beat >> beats; sleep 0.02; done; exit 5";
    let child = world.start(&["run", "a", "--", "sh", "-c", beats]);
    let command = world.lines("started", 1).await.remove(0);
    for pid in [&command, &pid_of(&child)] {
        suspend(pid).await;
        signal(pid, "CONT");
        let before = read_lines(&world.file("beats")).len();
        world.lines("beats", before + 2).await;
    }
    world.stop();
    finished(child).await.ends(5).is_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn term_ends_a_stopped_command() {
    let world = World::new().await;
    let script = "echo $$ > started; exec sleep 1000";
    let child = world.start(&sh("run a", script));
    let command = world.lines("started", 1).await.remove(0);
    signal(&command, "STOP");
    ended_by("TERM", child).await.ends(128 + 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_signal_reaches_grandchildren() {
    let world = World::new().await;
    // The command outlives the signal, and waits for its child.
    let family = "trap : TERM; sh -c 'trap \"echo told >> told; exit\" TERM; echo up >> up; \
         while :; do sleep 0.05; done' & wait; wait";
    let child = world.start(&sh("run a", family));
    world.lines("up", 1).await;
    ended_by("TERM", child).await.ends(0);
    assert_eq!(read_lines(&world.file("told")), ["told"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let world = World::new().await;
    // The shell ignores HUP, as `nohup` does, and becomes the wrapper.
    let script = "trap '' HUP; exec \"$@\"";
    let inner = "grep SigIgn /proc/self/status >> mask; echo $$ > started; \
         while [ ! -e stop ]; do sleep 0.05; done";
    let mut command = world.command_through(&["sh", "-c", script, "sh"]);
    let child = command.args(sh("run a", inner)).spawn().unwrap();
    world.lines("started", 1).await;
    let mask = read_lines(&world.file("mask"))[0].clone();
    let mask = u64::from_str_radix(mask.rsplit(|c: char| c.is_whitespace()).next().unwrap(), 16);
    assert_eq!(mask.unwrap() & 1, 1, "HUP is signal 1");
    signal(pid_of(&child), "HUP");
    signal(pid_of(&child), "HUP");
    world.stop();
    finished(child).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_at_their_defaults_in_the_command() {
    let world = World::new().await;
    // `grep` catches signals itself, and `cat` does not.
    let show = ["run", "a", "--", "cat", "/proc/self/status"];
    let status = output(&mut world.command(&show)).await.stdout;
    let masks = ["SigBlk:", "SigCgt:"].map(|mask| {
        let line = status.lines().find_map(|line| line.strip_prefix(mask));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    });
    assert_eq!(masks, [0, 0]);
}
