//! The recipes of the documents, run as they are written. Only the address, the folder of programs
//! and a token are replaced.

use crate::{prelude::*, support::Output};

const PAGE: &str = include_str!("../../../../docs/book/src/operate/recipes.md");

/// A job that notes its start, and ends when the file `go` is there.
const WAITS: &str =
    "echo started >> log; while [ ! -e go ]; do sleep 0.02; done; echo ended >> log";

/// A job that notes its first argument at its start and at its end.
const TAKES_TIME: &str = "echo \"$1 starts\" >> log; sleep 0.1; echo \"$1 ended\" >> log";

/// Runs the script below a heading in several processes, and expects each to succeed.
async fn side_by_side(world: &World, heading: &str, processes: usize) {
    let script = block(world, heading);
    let start = |_| world.shell(&script).spawn().unwrap();
    for process in (0..processes).map(start).collect::<Vec<_>>() {
        finished(process).await.ends(0);
    }
}

/// Runs a script to its end, and expects it to succeed.
async fn succeeds(world: &World, script: &str) -> Output {
    let ended = output(&mut world.shell(script)).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

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
    succeeds(&world, line).await;
    go(&world);
    finished(first).await.ends(0);
    assert_eq!(log(&world), ["started", "ended"]);
    // A machine that comes late runs it again; the second line does not.
    succeeds(&world, line).await;
    assert_eq!(log(&world).len(), 4);
    let line = of_crontab(&lines[1]);
    for _ in 0..2 {
        succeeds(&world, line).await;
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
        found.unwrap_or_else(|| panic!("{key} in {unit}"))
    };
    assert_eq!(value("KillMode="), "mixed");
    let environment = format!("REDLATCH_URL={}", world.url());
    assert_eq!(value("Environment="), environment);
    let start = format!("exec {}", value("ExecStart="));
    let first = world.shell(&start).spawn().unwrap();
    world.lines("log", 1).await;
    let second = world.shell(&start).spawn().unwrap();
    ended_by("TERM", first).await;
    assert_eq!(world.lines("log", 3).await, ["started", "told", "started"]);
    ended_by("TERM", second).await;
    world.free("indexer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_migrate_one_after_the_other_and_then_serve() {
    let world = World::new().await;
    world.program("manage", TAKES_TIME);
    world.program("serve", "echo serves >> served");
    side_by_side(&world, "Migrate when a container starts", 3).await;
    assert_eq!(log(&world), ["migrate starts", "migrate ended"].repeat(3));
    assert_eq!(read_lines(&world.file("served")).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_of_one_environment_run_one_after_the_other() {
    let world = World::new().await;
    world.program("deploy", TAKES_TIME);
    side_by_side(&world, "Deploy in CI", 2).await;
    assert_eq!(log(&world), ["staging starts", "staging ended"].repeat(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_sees_who_holds_a_name_up() {
    let world = World::new().await;
    let _held = world.client().await.lock("orders:42").lock().await.unwrap();
    let seen = succeeds(&world, &block(&world, "See the holder")).await;
    assert!(seen.stdout.matches("orders:42").count() > 1, "{seen:?}");
    seen.shows("other");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_keeps_a_service_from_working_during_maintenance() {
    let world = World::new().await;
    let script = block(&world, "Stop a service during maintenance");
    let during = script.replace("# … maintenance …", "redlatch show indexer");
    assert_ne!(during, script);
    succeeds(&world, &during).await.shows("db upgrade");
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
    let token = world.token("nightly-import").await;
    let script = block(&world, "Take a lock from a process that hangs");
    let ours = script.replace("1795536759021873", &token);
    assert_ne!(ours, script);
    succeeds(&world, &ours).await;
    finished(hangs).await.ends(76);
    world.free("nightly-import").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recording_of_a_test_becomes_a_page() {
    let world = World::new().await;
    let script = block(&world, "Record holds during a test");
    let (watch, draw) = script.split_once('\n').unwrap();
    let watch = world.shell(&format!("exec {watch}")).spawn().unwrap();
    let held = world.client().await.lock("orders:42").lock().await.unwrap();
    let token = held.token().to_string();
    let text = || fs::read_to_string(world.file("holds.jsonl")).unwrap_or_default();
    until("a record of the hold", || text().contains(&token)).await;
    ended_by("INT", watch).await;
    succeeds(&world, draw).await;
    let page = fs::read_to_string(world.file("holds.html")).unwrap();
    assert!(page.contains(&format!("\"token\":\"{token}\"")) && page.contains("orders:42"));
    for foreign in ["src=", "href=", "url(", "fetch(", "import "] {
        let needs = page.contains(foreign);
        assert!(!needs, "the page needs another file: {foreign}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn note_says_why_a_name_is_held() {
    let world = World::new().await;
    world.program("deploy", WAITS);
    let script = block(&world, "Say why you hold a name");
    let mut shell = world.shell(&script);
    let deployment = shell.env("CI_COMMIT_SHA", "3f9c1d").spawn().unwrap();
    world.lines("log", 1).await;
    let shown = world.redlatch("show deploy-production").await;
    shown.shows("release 3f9c1d");
    go(&world);
    finished(deployment).await.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_lets_a_deployment_go_on() {
    let world = World::new().await;
    let script = block(&world, "Check a new environment");
    let checked = succeeds(&world, &format!("{script}\necho goes on")).await;
    assert!(checked.stdout.ends_with("goes on\n"), "{checked:?}");
}
