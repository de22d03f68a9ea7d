//! `redlatch run` when nothing goes wrong with the server.

use crate::{prelude::*, world::LOOKS};

#[tokio::test(flavor = "multi_thread")]
async fn the_name_is_held_while_the_command_runs_and_free_afterwards() {
    let world = World::new().await;
    let script = "echo $$ > started; read line < gate; echo $line";
    world.pipe("gate");
    let child = world.start(&sh("run a", script));
    world.lines("started", 1).await;
    let client = world.client().await;
    let held = client.lock("a").holders().await.unwrap();
    let holder = held[0].metadata.as_ref().unwrap();
    assert_eq!(holder.application, "sh");
    assert_eq!(holder.pid.to_string(), pid_of(&child));
    let busy = world.ends(75, "run -n a -- true").await;
    busy.says("a is held by sh (pid");
    world.ends(3, "run -w 1s -E 3 a -- true").await;
    fs::write(world.file("gate"), "done\n").unwrap();
    finished(child).await.ends(0).prints("done\n");
    assert!(!client.lock("a").is_locked().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_that_were_waited_for_last_as_long_as_others() {
    let (world, client) = World::with_client().await;
    let semaphore = client.semaphore("s");
    semaphore.set_permits(1).await.unwrap();
    for waits in ["", "-w 100s"] {
        let held = semaphore.acquire().await.unwrap();
        let line = format!("run --permits 1 {waits} s");
        let child = world.start(&sh(&line, "sleep 0.3; echo mine"));
        world.awaited("s").await;
        held.release().await.unwrap();
        finished(child).await.ends(0).prints("mine\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_is_that_of_the_command() {
    let world = World::new().await;
    world.ends(7, &sh("run a", "exit 7")).await;
    let killed = sh("run a", "kill -USR1 $$");
    world.ends(128 + 10, &killed).await.is_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_command_is_found_out_before_anything_is_acquired() {
    let world = World::new().await;
    // No server: had it looked there first, the code would be another one.
    let nowhere = "redis://127.0.0.1:1";
    fs::write(world.file("data"), "x").unwrap();
    for (command, code) in [
        ("no-such-command", 127),
        ("./none", 127),
        ("./data", 126),
        ("/", 126),
        ("", 64),
    ] {
        let run = ["run", "a", "--", command];
        world.ends_at(nowhere, code, &run).await.says(command);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_is_told_name_token_and_owner() {
    let world = World::new().await;
    let print = "echo \"$REDLATCH_NAME/$REDLATCH_TOKEN/$REDLATCH_OWNER\"";
    let token = async || {
        let line = world.redlatch(&sh("run a", print)).await.stdout;
        let words: Vec<_> = line.trim().split('/').collect();
        assert_eq!(words[0], "a");
        assert!(words[2].contains(':'), "{line}");
        words[1].parse::<u64>().unwrap()
    };
    assert!(token().await < token().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_tells_what_happened() {
    let world = World::new().await;
    world.redlatch(&sh("run --report report a", "exit 7")).await;
    let told = world.report();
    has(
        &told,
        json!({"outcome": "ended", "code": 7, "exit": 7, "names": ["a"]}),
    );
    assert!(told["tokens"][0].as_u64().unwrap() > 0);
    let _held = world.client().await.lock("a").lock().await.unwrap();
    world.redlatch("run --report report -n a -- true").await;
    has(&world.report(), json!({"outcome": "busy", "code": 75}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_inherits_the_standard_input_and_no_other_descriptor() {
    let world = World::new().await;
    fs::write(world.file("input"), "line\n").unwrap();
    let list = ["sh", "-c", "cat; ls /proc/self/fd | wc -l"];
    let ran = async |mut command: tokio::process::Command| {
        command.stdin(fs::File::open(world.file("input")).unwrap());
        output(&mut command).await.stdout
    };
    let mut alone = tokio::process::Command::new(list[0]);
    alone.args(&list[1..]).stdout(std::process::Stdio::piped());
    alone.stderr(std::process::Stdio::piped());
    let alone = ran(alone).await;
    assert!(alone.starts_with("line\n"), "{alone}");
    let wrapped = world.command(&[&["run", "a", "--"][..], &list].concat());
    assert_eq!(ran(wrapped).await, alone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_and_the_place_in_the_line() {
    let (world, client) = World::with_client().await;
    let held = client.fair_lock("a").lock().await.unwrap();
    let child = world.start("run --fair a -- true");
    let waiters = async || client.fair_lock("a").info().await.unwrap().unwrap().waiters;
    world.awaited("a").await;
    ended_by("TERM", child).await.ends(128 + 15);
    while waiters().await > 0 {
        tokio::task::yield_now().await;
    }
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_look_at_the_number_of_permits() {
    let world = World::new().await;
    let way = world.way();
    world.ends(0, "run --permits 1 --of 8 known -- true").await;
    let semaphore = world.client().await.semaphore("s");
    semaphore.set_permits(5).await.unwrap();
    let lost = lose_replies(&way, "s", LOOKS);
    let run = "run --permits 1 --of 8 s -- touch ran";
    let url = format!("{}?patience=1h", way.url());
    let child = world.start_at(&url, run);
    lost.answered().await;
    ended_by("TERM", child).await.ends(128 + 15);
    while semaphore.available_permits().await.unwrap() < 5 {
        tokio::task::yield_now().await;
    }
    assert!(!world.file("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_record_of_a_client_is_left_on_the_server() {
    let (world, client) = World::with_client().await;
    let held = client.lock("taken").lock().await.unwrap();
    let records = || {
        let keys = world.server.keys().into_iter();
        keys.filter(|key| key.ends_with(b":m")).collect::<Vec<_>>()
    };
    let living = records();
    assert_eq!(living.len(), 1);
    world.ends(0, "run a -- true").await;
    world.ends(75, "run -n taken -- true").await;
    let child = world.start(&sh("run a", "echo $$ > started; exec sleep 1000"));
    world.lines("started", 1).await;
    assert_eq!(records().len(), 2);
    assert!(client.lock("a").force_release().await.unwrap());
    finished(child).await.ends(76);
    assert_eq!(records(), living);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_leaves_in_its_group_ends_before_the_name_is_given_back() {
    let world = World::new().await;
    let script = "sleep 1000 & echo $! > left; exit 0";
    world.ends(0, &sh("run a", script)).await.is_silent();
    let left = world.lines("left", 1).await;
    assert!(!is_alive(&left[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_is_told_unless_it_is_quiet() {
    let world = World::new().await;
    let _held = world.client().await.lock("a").lock().await.unwrap();
    for (line, code) in [
        ("run -n -E 0 a -- true", 0),
        ("run -w 10ms a -- true", 75),
        ("hold a --for 1h", 75),
        ("wait -w 0s a", 75),
    ] {
        world.ends(code, line).await.says("busy: a is held by");
        let quiet = format!("{line} -q").replace("-- true -q", "-q -- true");
        world.ends(code, &quiet).await.is_silent();
    }
    let shown = world.ends(75, "run -v -n a -- true").await;
    shown.says("event=\"connected\"");
    let mut chosen = world.command("run -n a -- true");
    let chosen = output(chosen.env("RUST_LOG", "redlatch=info")).await;
    chosen.ends(75).says("event=\"connected\"");
}

/// The bound covers the start of the program, the connection and the wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_wait_bounds_the_connection_as_well() {
    let world = World::new().await;
    let way = world.way();
    way.black_hole();
    for line in [
        "run -w 1s a -- true",
        "wait -w 1s a",
        "hold a --for 1h -w 1s",
    ] {
        let ended = world.ends_at(&way.url(), 69, line).await;
        ended.says("no server answers within 1.0s");
    }
}
