//! Ten thousand locks held at once by one process, and what it costs to keep them.
//!
//! `many_holds [number] [--real]`. With `--real` the server is a process of its own, and its costs
//! are told too. Leases are 6 s, a fifth of the default, so renewals come five times as often as
//! usual.

use std::{
    collections::HashMap,
    env, fs,
    process::ExitCode,
    time::{Duration, Instant},
};

use redlatch::{Client, HoldState, LockGuard};
use redlatch_examples::{Result, Server, run};
use tokio::{task::JoinSet, time::sleep};

const LEASE: Duration = Duration::from_secs(6);
const WATCHED: Duration = Duration::from_secs(12);

#[tokio::main]
async fn main() -> ExitCode {
    run(many_holds()).await
}

async fn many_holds() -> Result {
    let holds: usize = env::args()
        .skip(1)
        .find(|arg| arg != "--real")
        .map_or(Ok(10_000), |n| n.parse())?;
    // Always a server of our own: its counters shall count nothing but this.
    let server = Server::start().await?;
    let client = Client::builder(server.url())
        .default_lease(LEASE)
        .connect()
        .await?;
    if cfg!(debug_assertions) {
        println!(
            "(not optimised: for figures that mean something, cargo run --release --example many_holds)\n"
        );
    }

    let before = Usage::read(&server).await?;
    let start = Instant::now();
    let guards = acquire(&client, holds).await?;
    let (took, after) = (start.elapsed(), Usage::read(&server).await?);
    let per_hold = |what: f64| what / holds as f64;
    println!(
        "{holds} locks taken in {took:.1?}, {:.0} per second",
        holds as f64 / took.as_secs_f64()
    );
    if let (Some(before), Some(after)) = (before.memory, after.memory) {
        println!(
            "  memory per hold   {} {:.0} bytes (resident set, all of it counted)",
            server.engine().map_or("client", |_| "client and engine"),
            per_hold(after - before)
        );
    }
    if let (Some(before), Some(after)) = (&before.server, &after.server) {
        println!(
            "                    server {:.0} bytes",
            per_hold(after.memory - before.memory)
        );
    }
    println!();

    println!("Held for {WATCHED:?} with leases of {LEASE:?} …");
    let before = after;
    let start = Instant::now();
    sleep(WATCHED).await;
    let (seconds, after) = (start.elapsed().as_secs_f64(), Usage::read(&server).await?);
    let renewals = after.scripts - before.scripts;
    println!(
        "  renewals          {renewals:.0}, {:.0} per second",
        renewals / seconds
    );
    if let (Some(before), Some(after)) = (before.cpu, after.cpu) {
        let whose = server.engine().map_or("client CPU", |_| "CPU, both sides");
        print_cpu(whose, after - before, seconds, renewals);
    }
    match (before.server, after.server) {
        (Some(before), Some(after)) => print_server(&before, &after, seconds, renewals),
        _ => println!("  server CPU        not known apart from the client's; --real tells"),
    }

    let lost = guards
        .iter()
        .filter(|guard| guard.state() != HoldState::Held)
        .count();
    println!("  lost              {lost}\n");

    let start = Instant::now();
    drop(guards);
    client.settled().await;
    println!(
        "All released in {:.1?}; left in the client: {:?}",
        start.elapsed(),
        client.tables()
    );
    let left = client.locks("*").next().await.is_some();
    if lost > 0 || left || client.tables().holds > 0 {
        return Err("not all were held to the end, or not all were released".into());
    }
    Ok(())
}

/// Takes them with a hundred at a time under way.
async fn acquire(client: &Client, holds: usize) -> Result<Vec<LockGuard>> {
    let mut guards = Vec::with_capacity(holds);
    let mut tasks = JoinSet::new();
    for n in 0..holds {
        if tasks.len() == 100
            && let Some(guard) = tasks.join_next().await
        {
            guards.push(guard??);
        }
        tasks.spawn(
            client
                .lock(format!("example:device:{n}"))
                .lock()
                .into_future(),
        );
    }
    while let Some(guard) = tasks.join_next().await {
        guards.push(guard??);
    }
    Ok(guards)
}

fn print_server(before: &ServerUsage, after: &ServerUsage, seconds: f64, renewals: f64) {
    print_cpu("server CPU", after.cpu - before.cpu, seconds, renewals);
    println!(
        "  per renewal       {:.0} commands (a script and what it calls), {:.0} bytes to the server, {:.0} back",
        (after.commands - before.commands) / renewals,
        (after.bytes_in - before.bytes_in) / renewals,
        (after.bytes_out - before.bytes_out) / renewals,
    );
}

fn print_cpu(whose: &str, cpu: f64, seconds: f64, renewals: f64) {
    println!(
        "  {whose:<17} {:.1} % of a core, {:.1} µs per renewal",
        cpu / seconds * 100.0,
        cpu / renewals * 1e6
    );
}

/// What has been used up so far. CPU in seconds, memory in bytes.
struct Usage {
    cpu: Option<f64>,
    memory: Option<f64>,
    scripts: f64,
    server: Option<ServerUsage>,
}

/// What a server in a process of its own has used up.
struct ServerUsage {
    cpu: f64,
    memory: f64,
    commands: f64,
    bytes_in: f64,
    bytes_out: f64,
}

impl Usage {
    async fn read(server: &Server) -> Result<Self> {
        let (scripts, server) = match server.engine() {
            Some(engine) => (engine.command_count("evalsha") as f64, None),
            None => {
                let counters = server.counters().await?;
                let scripts = calls(counters.get("cmdstat_evalsha"));
                (scripts, Some(ServerUsage::parse(&counters)?))
            }
        };
        Ok(Self {
            cpu: cpu_time(),
            memory: resident_memory(),
            scripts,
            server,
        })
    }
}

impl ServerUsage {
    fn parse(counters: &HashMap<String, String>) -> Result<Self> {
        let number = |name: &str| -> Result<f64> {
            let text = counters
                .get(name)
                .ok_or_else(|| format!("the server does not tell {name}"))?;
            Ok(text.parse()?)
        };
        Ok(Self {
            cpu: number("used_cpu_user")? + number("used_cpu_sys")?,
            memory: number("used_memory")?,
            commands: number("total_commands_processed")?,
            bytes_in: number("total_net_input_bytes")?,
            bytes_out: number("total_net_output_bytes")?,
        })
    }
}

/// Reads the 7 of `calls=7,usec=…`.
fn calls(stat: Option<&String>) -> f64 {
    let calls = stat.and_then(|stat| stat.strip_prefix("calls=")?.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or(0.0)
}

#[cfg(unix)]
fn cpu_time() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

#[cfg(not(unix))]
fn cpu_time() -> Option<f64> {
    None
}

/// Reads the resident set where Linux shows it.
fn resident_memory() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024.0)
}
