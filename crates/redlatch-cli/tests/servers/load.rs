//! Cases that take long in full: rounds of a server that is stopped, much data, many objects. The
//! gate runs a short case of each, and `cargo xtask check load` the whole.

use std::{env, fs};

use redlatch_tests::server::{ServerBinary, ServerOptions};
use tokio::{
    process::Child,
    time::{Duration, Instant, sleep},
};

use crate::{
    server::{Server, on_every},
    support::{World, finished, passes, pid_of, read_lines, signal},
};

/// Returns the number in a variable that `check load` sets.
fn number(variable: &str, short: usize) -> usize {
    let given = env::var(variable).ok();
    given.map_or(short, |text| text.parse().expect("a number"))
}

/// In each round a command works under a name, another `redlatch run` waits for the name, and the
/// server is stopped, for a part of the lease or for longer.
#[tokio::test(flavor = "multi_thread")]
async fn commands_under_a_stopped_server_never_overlap() {
    let rounds = number("REDLATCH_TEST_ROUNDS", 4);
    for began in (0..rounds).step_by(SIDE_BY_SIDE) {
        let names: Vec<_> = (began..rounds.min(began + SIDE_BY_SIDE)).collect();
        // Longer than the lease at first, and then as long as some renewals outlive.
        let stopped = Duration::from_millis(STOPS[began / SIDE_BY_SIDE % STOPS.len()]);
        on_every(|world| some_rounds(world, names.clone(), stopped)).await;
    }
}

/// So many rounds run side by side, since each mostly waits.
const SIDE_BY_SIDE: usize = 10;

/// For how long the server is stopped, in ms. The lease has three seconds.
const STOPS: [u64; 5] = [4_000, 600, 2_400, 1_700, 3_100];

async fn some_rounds(world: World, names: Vec<usize>, stopped: Duration) {
    let run = |n: usize, command: &[&str]| -> Child {
        let name = format!("r{n}");
        let times = ["run", "--lease", "3s", "--kill-after", "1s", &name, "--"];
        world.start(&[&times[..], command].concat())
    };
    let mut holders = Vec::new();
    for &n in &names {
        let work =
            format!("trap 'echo told >> {n}.told' TERM; while :; do date +%s%N >> {n}.beats; done");
        holders.push(run(n, &["sh", "-c", &work]));
        world.lines(&format!("{n}.beats"), 2).await;
    }
    let waiting: Vec<_> = names.iter().map(|&n| run(n, &["date", "+%s%N"])).collect();
    for n in &names {
        world.awaited(&format!("r{n}")).await;
    }
    world.server.stop();
    sleep(stopped).await;
    world.server.cont();
    for ((&n, mut holder), waiting) in names.iter().zip(holders).zip(waiting) {
        if holder.try_wait().unwrap().is_none() && stopped < Duration::from_secs(3) {
            // It may have been renewed in time, and would work for ever.
            signal(pid_of(&holder), "KILL");
        }
        let (ended, next) = (finished(holder).await, finished(waiting).await);
        assert!([76, -1].contains(&ended.code), "{n}: {ended:?}");
        assert_eq!(next.code, 0, "{n}: {}", next.stderr);
        let taken: u64 = next.stdout.trim().parse().unwrap();
        let beats = read_lines(&world.file(&format!("{n}.beats")));
        let last: u64 = beats.last().unwrap().parse().unwrap();
        assert!(last < taken, "{n}: alive {} ns after that", last - taken);
        let told = world.file(&format!("{n}.told")).exists();
        assert!(told || ended.code != 76, "{n}: killed without TERM before");
        let between = (taken - last) / 1_000_000;
        let code = ended.code;
        println!("{n}: stopped {stopped:?}, code {code}, {between} ms between");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn much_data_passes_unchanged() {
    let world = Server::start(ServerBinary::any(), ServerOptions::new()).await;
    let megabytes = number("REDLATCH_TEST_MEGABYTES", 32);
    let began = Instant::now();
    passes(&world, megabytes).await;
    println!("{megabytes} MB in {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_objects_are_listed_in_bounded_memory() {
    on_every(objects_are_listed).await;
}

async fn objects_are_listed(world: World) {
    let objects = number("REDLATCH_TEST_OBJECTS", 2_000);
    let client = world.client().await;
    let lease = Duration::from_secs(600);
    let mut held = Vec::new();
    for at in 0..objects {
        let lock = client.lock(format!("orders:{at}"));
        held.push(lock.lock().lease(lease).await.unwrap());
    }
    let slow = ["CONFIG", "SET", "slowlog-log-slower-than", "1000"];
    world.server.command(&slow);
    world.server.command(&["SLOWLOG", "RESET"]);
    let began = Instant::now();
    let (child, mut lines) = world.watch(&world.url(), "ls --json orders:*");
    let memory = tokio::spawn(most_memory(pid_of(&child)));
    let (mut first, mut listed) = (None, 0);
    while let Some(line) = lines.next_line().await.unwrap() {
        first.get_or_insert_with(|| began.elapsed());
        assert!(line.contains("\"name\":\"orders:"), "{line}");
        listed += 1;
    }
    let all = began.elapsed();
    let slow = world.server.command(&["SLOWLOG", "LEN"]);
    assert_eq!((finished(child).await.code, listed), (0, objects));
    let memory = memory.await.unwrap();
    println!("{objects} objects: first line {first:?}, all {all:?}, {memory} kB");
    println!("commands above 1 ms, on a machine that is idle none: {slow}");
    // A walk of 256 keys at a time.
    assert!(memory < 40_000, "{memory} kB");
    let table = world.start("ls orders:*");
    let memory = most_memory(pid_of(&table));
    let (memory, table) = tokio::join!(memory, finished(table));
    assert_eq!(table.stdout.lines().count(), objects + 1);
    println!("the table took {memory} kB");
    // It has a line per object.
    assert!(memory < 40_000 + objects, "{memory} kB");
    drop(held);
}

/// Returns the peak memory of a process, in kB, when it has ended.
async fn most_memory(pid: String) -> usize {
    let mut most = 0;
    while let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let Some(line) = line else { break };
        let kilobytes = line.trim().trim_end_matches(" kB").parse().unwrap();
        most = most.max(kilobytes);
        sleep(Duration::from_millis(5)).await;
    }
    most
}
