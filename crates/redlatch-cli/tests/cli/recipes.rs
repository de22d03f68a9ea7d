//! The recipes of the documents, run as they are written. Only the address, the folder of programs
//! and a token are replaced.

use std::{fs, time::Duration};

use tokio::time::{Instant, sleep};

use crate::support::{GENEROUS, World, finished, output, pid_of, read_lines, signal};

const PAGE: &str = include_str!("../../../../docs/book/src/operate/recipes.md");

/// A job that notes its start, and ends when the file `go` is there.
const WAITS: &str =
    "echo started >> log; while [ ! -e go ]; do sleep 0.02; done; echo ended >> log";

/// Returns the blocks of code below a heading, for this world.
fn blocks(world: &World, heading: &str) -> Vec<String> {
    let (_, rest) = PAGE
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("the page has no {heading}"));
    let part = rest.split("\n## ").next().unwrap();
    let folder = format!("{}/", world.file("").display());
    let code = part.split("```").skip(1).step_by(2);
    let code = code.map(|block| block.split_once('\n').unwrap().1);
    let code = code.map(|block| {
        block
            .replace("redis://redis.internal", &world.url())
            .replace("/usr/local/bin/redlatch", "redlatch")
            .replace("/usr/local/bin/", &folder)
    });
    code.collect()
}

fn block(world: &World, heading: &str) -> String {
    let mut blocks = blocks(world, heading);
    assert_eq!(blocks.len(), 1, "{heading}");
    blocks.remove(0)
}

/// Lets the jobs that wait end.
fn go(world: &World) {
    fs::write(world.file("go"), "").unwrap();
}

fn log(world: &World) -> Vec<String> {
    read_lines(&world.file("log"))
}

/// Returns the token of the holder of `name`.
async fn token(world: &World, name: &str) -> String {
    let client = world.client().await;
    let end = Instant::now() + GENEROUS;
    loop {
        if let Some(object) = client.object(name).await.unwrap()
            && let Some(holder) = object.holders.first()
        {
            return holder.token.unwrap().to_string();
        }
        assert!(Instant::now() < end, "nobody holds {name}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns what cron gives to the shell.
fn of_crontab(line: &str) -> &str {
    let mut fields = line.trim_end().splitn(7, ' ');
    assert_eq!(fields.nth(5), Some("app"), "time and user: {line}");
    fields.next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn job_of_a_crontab_runs_on_one_machine() {
    let world = World::new().await;
    world.program("nightly", WAITS);
    let lines = blocks(&world, "Run a cron job on one of several machines");
    let line = of_crontab(&lines[0]);
    let first = world.shell(line).spawn().unwrap();
    world.lines("log", 1).await;
    let other = output(&mut world.shell(line)).await;
    assert_eq!(other.code, 0, "{other:?}");
    go(&world);
    finished(first).await.ends(0);
    assert_eq!(log(&world), ["started", "ended"]);
    // A machine that comes late runs it again; the second line does not.
    output(&mut world.shell(line)).await.ends(0);
    assert_eq!(log(&world).len(), 4);
    let line = of_crontab(&lines[1]);
    for _ in 0..2 {
        output(&mut world.shell(line)).await.ends(0);
        assert_eq!(log(&world).len(), 6);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unit_of_systemd_passes_the_signal_on_and_frees_the_name() {
    let world = World::new().await;
    let job =
        "trap 'echo told >> log; exit' TERM; echo started >> log; while :; do sleep 0.02; done";
    world.program("indexer", job);
    let unit = block(&world, "Run one instance of a service");
    let value = |key: &str| {
        let found = unit.lines().find_map(|line| line.strip_prefix(key));
        found
            .unwrap_or_else(|| panic!("{key} in {unit}"))
            .to_owned()
    };
    assert_eq!(value("KillMode="), "mixed");
    assert_eq!(
        value("Environment="),
        format!("REDLATCH_URL={}", world.url())
    );
    let start = format!("exec {}", value("ExecStart="));
    let first = world.shell(&start).spawn().unwrap();
    world.lines("log", 1).await;
    let second = world.shell(&start).spawn().unwrap();
    signal(pid_of(&first), "TERM");
    finished(first).await;
    assert_eq!(world.lines("log", 3).await, ["started", "told", "started"]);
    signal(pid_of(&second), "TERM");
    finished(second).await;
    world.free("indexer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_migrate_one_after_the_other_and_then_serve() {
    let world = World::new().await;
    world.program(
        "manage",
        "echo \"$1 starts\" >> log; sleep 0.1; echo \"$1 ended\" >> log",
    );
    world.program("serve", "echo serves >> served");
    let script = block(&world, "Migrate when a container starts");
    let replicas: Vec<_> = (0..3)
        .map(|_| world.shell(&script).spawn().unwrap())
        .collect();
    for replica in replicas {
        let output = finished(replica).await;
        assert_eq!(output.code, 0, "{output:?}");
    }
    assert_eq!(log(&world), ["migrate starts", "migrate ended"].repeat(3));
    assert_eq!(read_lines(&world.file("served")).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_of_one_environment_run_one_after_the_other() {
    let world = World::new().await;
    world.program(
        "deploy",
        "echo \"$1 starts\" >> log; sleep 0.1; echo \"$1 ended\" >> log",
    );
    let script = block(&world, "Deploy in CI");
    let jobs: Vec<_> = (0..2)
        .map(|_| world.shell(&script).spawn().unwrap())
        .collect();
    for job in jobs {
        finished(job).await.ends(0);
    }
    assert_eq!(log(&world), ["staging starts", "staging ended"].repeat(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_sees_who_holds_a_name_up() {
    let world = World::new().await;
    let client = world.client().await;
    let _held = client.lock("orders:42").lock().await.unwrap();
    let seen = output(&mut world.shell(&block(&world, "See the holder"))).await;
    assert_eq!(seen.code, 0, "{seen:?}");
    assert!(seen.stdout.matches("orders:42").count() > 1, "{seen:?}");
    assert!(seen.stdout.contains("other"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_keeps_a_service_from_working_during_maintenance() {
    let world = World::new().await;
    let script = block(&world, "Stop a service during maintenance");
    let during = script.replace("# … maintenance …", "redlatch show indexer");
    assert_ne!(during, script);
    let held = output(&mut world.shell(&during)).await;
    assert_eq!(held.code, 0, "{held:?}");
    assert!(held.stdout.contains("db upgrade"), "{held:?}");
    world.free("indexer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_waits_until_a_deployment_is_over() {
    let world = World::new().await;
    world.program("deploy", WAITS);
    world.program("smoke-test", "echo tested >> log");
    let run = ["run", "deploy-production", "--", "./deploy"];
    let deployment = world.start(&run);
    world.lines("log", 1).await;
    let script = block(&world, "Wait for a deployment");
    let test = world.shell(&script).spawn().unwrap();
    go(&world);
    finished(deployment).await.ends(0);
    finished(test).await.ends(0);
    assert_eq!(log(&world), ["started", "ended", "tested"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_takes_a_lock_from_a_process_that_hangs() {
    let world = World::new().await;
    let hangs = world.start("run --lease 3s nightly-import -- sleep 600");
    let token = token(&world, "nightly-import").await;
    let script = block(&world, "Take a lock from a process that hangs");
    let ours = script.replace("1795536759021873", &token);
    assert_ne!(ours, script);
    let broken = output(&mut world.shell(&ours)).await;
    assert_eq!(broken.code, 0, "{broken:?}");
    finished(hangs).await.ends(76);
    world.free("nightly-import").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_of_a_test_becomes_a_page() {
    let world = World::new().await;
    let script = block(&world, "Record holds during a test");
    let (watch, draw) = script.split_once('\n').unwrap();
    let watch = world.shell(&format!("exec {watch}")).spawn().unwrap();
    let client = world.client().await;
    let held = client.lock("orders:42").lock().await.unwrap();
    let token = held.token().to_string();
    let end = Instant::now() + GENEROUS;
    while !fs::read_to_string(world.file("holds.jsonl")).is_ok_and(|text| text.contains(&token)) {
        assert!(Instant::now() < end, "the hold is not recorded");
        sleep(Duration::from_millis(20)).await;
    }
    signal(pid_of(&watch), "INT");
    finished(watch).await;
    let drawn = output(&mut world.shell(draw)).await;
    assert_eq!(drawn.code, 0, "{drawn:?}");
    let page = fs::read_to_string(world.file("holds.html")).unwrap();
    assert!(page.contains(&token) && page.contains("orders:42"));
}

#[tokio::test(flavor = "multi_thread")]
async fn note_says_why_a_name_is_held() {
    let world = World::new().await;
    world.program("deploy", WAITS);
    let script = block(&world, "Say why you hold a name");
    let mut shell = world.shell(&script);
    let deployment = shell.env("CI_COMMIT_SHA", "3f9c1d").spawn().unwrap();
    world.lines("log", 1).await;
    let seen = world.redlatch("show deploy-production").await;
    assert!(seen.stdout.contains("release 3f9c1d"), "{seen:?}");
    go(&world);
    finished(deployment).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_lets_a_deployment_go_on() {
    let world = World::new().await;
    let script = block(&world, "Check a new environment");
    let checked = output(&mut world.shell(&format!("{script}\necho goes on"))).await;
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.stdout.ends_with("goes on\n"), "{checked:?}");
}
