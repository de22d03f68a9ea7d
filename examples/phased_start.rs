//! Six processes get ready, each in its own time, and start together; the first process waits until
//! all have finished.
//!
//! Two latches do it. Everybody counts `start` down when it is ready and waits for the others, so
//! that nobody starts before the last is ready. Everybody counts `done` down at its end, and
//! whoever cares waits for that. No process needs to know another, or be the first to come.

use std::{
    env,
    process::{ExitCode, Stdio},
    time::Duration,
};

use redlatch::{Client, ErrorKind};
use redlatch_examples::{Result, Server, micros, role, run};
use tokio::{
    process::Child,
    time::{sleep, timeout},
};

const RUNNERS: u32 = 6;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match &args[..] {
        [role, url, race, number] if role == "runner" => run(runner(url, race, number)).await,
        _ => run(race()).await,
    }
}

/// A process that takes part.
async fn runner(url: &str, race: &str, number: &str) -> Result {
    let client = Client::connect(url).await?;
    let (start, done) = latches(&client, race);

    // Whoever comes first sets the latch; to all others it says that it is set. A TTL tidies up
    // behind a race that never starts.
    start
        .try_set_count(RUNNERS)
        .ttl(Duration::from_secs(60))
        .await?;

    // Getting ready: opening files, warming caches; it takes one longer than another.
    sleep(Duration::from_millis(80 * number.parse::<u64>()?)).await;
    let ready = micros();

    // One more is ready. Waits until all are; the last one's count-down opens it, and one message
    // tells everybody.
    start.count_down_and_wait(1).await?;
    let started = micros();

    sleep(Duration::from_millis(30)).await;
    done.count_down(1).await?;
    println!("{number} {ready} {started}");
    client.close(Duration::from_secs(1)).await;
    Ok(())
}

/// The first process: lets the others run and looks at their watches.
async fn race() -> Result {
    let server = Server::from_env_or_start().await?;
    let client = Client::connect(server.url()).await?;
    let race = format!("{}-{}", std::process::id(), micros());
    let (start, done) = latches(&client, &race);

    // Nobody has set it yet: that is an error of its own, and no endless wait.
    let early = start.wait_for(Duration::from_millis(10)).await;
    if early.as_ref().map_err(redlatch::Error::kind) != Err(ErrorKind::NotSet) {
        return Err(format!("nobody has set it, and yet: {early:?}").into());
    }

    done.try_set_count(RUNNERS)
        .ttl(Duration::from_secs(60))
        .await?;
    let runners: Vec<_> = (1..=RUNNERS)
        .map(|number| spawn(server.url(), &race, number))
        .collect::<Result<_>>()?;
    println!("{RUNNERS} processes get ready, in their own time.");
    while !done.wait_for(Duration::from_millis(200)).await? {
        let ready = start.info().await?;
        match ready {
            Some(info) if info.is_open() => println!("  all have started, and some are not done"),
            Some(info) => println!(
                "  {} of {} are ready",
                info.initial - info.count,
                info.initial
            ),
            None => println!("  nobody has come"),
        }
    }
    println!("All are done.\n");

    let mut starts = Vec::new();
    for runner in runners {
        starts.push(report(runner).await?);
    }
    starts.sort_unstable();
    let last_ready = starts.iter().map(|start| start.ready).max().unwrap_or(0);
    let first = starts.iter().map(|start| start.started).min().unwrap_or(0);
    for start in &starts {
        let (ready, started) = (
            since(start.ready, last_ready),
            since(start.started, last_ready),
        );
        println!(
            "process {}: ready {ready:>9.3} ms, started {started:>7.3} ms",
            start.number
        );
    }
    println!("  (0 is when the last was ready)");
    if first < last_ready {
        return Err("one started before all were ready".into());
    }
    let spread = starts
        .iter()
        .map(|start| start.started - first)
        .max()
        .unwrap_or(0);
    println!(
        "\nNobody started before all were ready. Between the first start and the last were {spread} µs."
    );

    // They would go by themselves after a minute.
    start.delete().await?;
    done.delete().await?;
    client.close(Duration::from_secs(1)).await;
    Ok(())
}

fn latches(client: &Client, race: &str) -> (redlatch::CountDownLatch, redlatch::CountDownLatch) {
    let latch = |what: &str| client.count_down_latch(format!("example:{race}:{what}"));
    (latch("start"), latch("done"))
}

/// What a process told of its start, in µs of the clock that all processes of a machine share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    number: u32,
    ready: u64,
    started: u64,
}

fn spawn(url: &str, race: &str, number: u32) -> Result<Child> {
    let mut runner = role("runner")?;
    runner.args([url, race, &number.to_string()]);
    Ok(runner.stdout(Stdio::piped()).spawn()?)
}

async fn report(runner: Child) -> Result<Start> {
    let output = timeout(Duration::from_secs(10), runner.wait_with_output()).await??;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    match numbers[..] {
        [number, ready, started] => Ok(Start {
            number: u32::try_from(number)?,
            ready,
            started,
        }),
        _ => Err(format!("a process said {text:?} and ended with {}", output.status).into()),
    }
}

/// From `zero` to `at`, in ms.
fn since(at: u64, zero: u64) -> f64 {
    (at as f64 - zero as f64) / 1_000.0
}
