//! `redlatch run` in odd surroundings: no descriptors, odd names, long command lines, as process 1.

use std::process::Stdio;

use tokio::process::Command;

use crate::{prelude::*, support::passes};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_that_becomes_too_long_is_told_and_the_name_is_free() {
    let world = World::new().await;
    // Words may have 128 KiB each, and the command line some 2 MiB.
    let fill = "x".repeat(100_000);
    let run = |words: usize, last: usize| {
        let mut command = world.command("run -n a -- true");
        command.args(std::iter::repeat_n(&fill, words));
        command.arg("y".repeat(last));
        command
    };
    let starts = |words: usize, last: usize| {
        let mut command = std::process::Command::new(REDLATCH);
        command.arg("--version").stdout(Stdio::null());
        command.args(["n", "a", "--", "true"]);
        command
            .env("REDLATCH_URL", world.url())
            .env_remove("REDIS_URL");
        command.args(std::iter::repeat_n(&fill, words));
        command.arg("y".repeat(last));
        match command.status() {
            Ok(_) => true,
            Err(error) if error.kind() == std::io::ErrorKind::ArgumentListTooLong => false,
            Err(error) => panic!("{error}"),
        }
    };
    let words = (1..100).take_while(|&words| starts(words, 0));
    let words = words.last().unwrap();
    let (mut fits, mut is_too_long) = (0, 100_000);
    while is_too_long - fits > 1 {
        let middle = usize::midpoint(fits, is_too_long);
        if starts(words, middle) {
            fits = middle;
        } else {
            is_too_long = middle;
        }
    }
    // The command itself gets more: the name of the hold in its environment, for instance.
    let refused = output(&mut run(words, fits - 30)).await;
    refused.ends(126).says("list too long");
    output(&mut run(words - 1, 0)).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_descriptors_do_not_matter() {
    let world = World::new().await;
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let line = format!("exec \"$0\" run -n a -- sh -c 'echo ran >> ran; exit 7' {closed}");
        let mut command = world.command_through(&["sh", "-c", &line]);
        assert_eq!(output(&mut command).await.code, 7, "{closed}");
    }
    assert_eq!(read_lines(&world.file("ran")).len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_output_does_not_change_the_code() {
    let world = World::new().await;
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let run = sh("run --report /dev/full a", "exit 7");
    let told = world.ends(7, &run).await;
    told.says("the report cannot be written");
    let mut command = world.command(&run);
    output(command.stdout(full()).stderr(full())).await.ends(7);
    for report in ["/", "/nowhere/report", ""] {
        let command = sh("a", "echo >> ran");
        let args = [&["run", "--report", report], &command[..]].concat();
        world.ends(64, &args).await;
    }
    assert!(!world.file("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_names_are_held_as_they_are() {
    let (world, client) = World::with_client().await;
    let longest = "n".repeat(512);
    let odd = "a b,größe,a\nb,\u{1b}[2J,{a},a*b,-x,=,🔒";
    for name in odd.split(',').chain([longest.as_str()]) {
        let held = client.lock(name).lock().await.unwrap();
        // An option would begin like -x.
        let is_like_one = name.starts_with('-');
        let mut args = if is_like_one { "run -n --" } else { "run -n" }.args();
        args.push(name);
        args.extend(sh("", "printf %s \"$REDLATCH_NAME\""));
        let busy = world.ends(75, &args).await;
        assert!(!busy.stderr.contains('\u{1b}'), "{:?}", busy.stderr);
        assert_eq!(busy.stderr.matches('\n').count(), 1, "{:?}", busy.stderr);
        held.release().await.unwrap();
        let ran = world.redlatch(&args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, name));
    }
    for line in ["once --slot 1 -- -y -- true", "elect -- -z -- true"] {
        world.ends(0, line).await;
    }
    for line in [
        "run -- true",
        "elect -- -x -y -- true",
        "once --slot 1 -- true",
    ] {
        world.ends(64, line).await.says("name");
    }
    for name in ["", &"n".repeat(513)] {
        let refused = world.ends(64, &["run", "-n", name, "--", "true"]).await;
        assert!(refused.stderr.len() < 1_000, "{}", refused.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_pass_the_standard_input_and_output_unchanged() {
    let world = World::new().await;
    passes(&world, 32).await;
}

/// As in a container without an init.
#[tokio::test(flavor = "multi_thread")]
async fn as_process_1_it_forwards_signals_and_reaps_orphans() {
    let world = World::new().await;
    let new = "--user --map-root-user --pid --fork --kill-child --mount-proc".args();
    let mut possible = Command::new("unshare");
    let possible = possible.args(&new).arg("true").status().await;
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("this machine grants no namespaces: there can be no second process 1");
        return;
    }
    let mut command = world.command_through(&[&["unshare"], &new[..]].concat());
    // The inner shell ends at once, so that its child becomes one of process 1.
    let script = "for i in 1 2 3 4 5; do sh -c 'sleep 0.1 & exit'; done; \
         trap 'echo told >> told; exit 3' TERM; echo up >> up; \
         while :; do ls -d /proc/[0-9]* | wc -l > count.new; mv count.new count; \
         grep -l '^State:.Z' /proc/[0-9]*/status > zombies.new; mv zombies.new zombies; \
         date +%s%N >> looks; sleep 0.05; done";
    command.args(["run", "a", "--", "sh", "-c", script]);
    let child = command.spawn().unwrap();
    world.lines("up", 1).await;
    // The orphans end within 0.1 s, and are reaped soon after.
    let zombies = || fs::read_to_string(world.file("zombies")).unwrap_or_default();
    let looks = || read_lines(&world.file("looks")).len();
    until("no zombies", || looks() > 8 && zombies().is_empty()).await;
    let outer = child.id().unwrap();
    let inner = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    signal(inner.trim(), "TERM");
    finished(child).await.ends(3);
    assert_eq!(read_lines(&world.file("told")), ["told"]);
    assert!(!is_alive(inner.trim()));
}
