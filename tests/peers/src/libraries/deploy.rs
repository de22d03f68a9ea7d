//! Many rounds of both sides, and a deploy of many processes.

use std::time::{Duration, Instant};

use redlatch_tests::server::Reply;
use tokio::time::sleep;

use super::{Peer, Stage, ensure};
use crate::Outcome;

/// Two processes of each side hold one name, until it was held often enough.
pub(super) async fn rounds(stage: &Stage<'_>) -> Outcome {
    let mut workers: Vec<Peer> = Vec::new();
    for _ in 0..2 {
        workers.push(stage.ours(&["old", "w", "w:witness"]));
        workers.push(theirs(stage, "w", "w:witness")?);
    }
    let start = Instant::now();
    let mut last = (0, Instant::now());
    loop {
        // A round may end between the two answers: the smaller count is read first.
        let ours = counter(stage, "w:witness:ours");
        let rounds = counter(stage, "w:witness:rounds");
        // Programs of the library take a while to start.
        let share = stage.options.rounds / 100;
        if rounds >= stage.options.rounds && ours > share && rounds > ours + share {
            break;
        }
        progress(&mut workers, &mut last, rounds)?;
        sleep(Duration::from_millis(20)).await;
    }
    stop(workers).await?;
    let (rounds, ours) = (
        counter(stage, "w:witness:rounds"),
        counter(stage, "w:witness:ours"),
    );
    ensure(counter(stage, "w:witness") == 0, "a holder is left")?;
    let took = start.elapsed();
    println!("  {rounds} rounds by four processes in {took:.1?}, {ours} of them ours");
    Ok(())
}

/// Processes of the library are replaced one by one by processes that hold both layouts, and those
/// by processes that hold the new lock only. There are never two holders.
pub(super) async fn deploy(stage: &Stage<'_>) -> Outcome {
    let (name, witness) = ("d", "d:witness");
    let start = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..stage.options.processes {
        workers.push(theirs(stage, name, witness)?);
    }
    goes_on(stage, &mut workers, witness).await?;
    for phase in ["both", "new"] {
        for at in 0..workers.len() {
            let next = stage.ours(&[phase, name, witness]);
            let old = std::mem::replace(&mut workers[at], next);
            old.finish()
                .await
                .map_err(|error| format!("{phase} {at}: {error}"))?;
            goes_on(stage, &mut workers, witness).await?;
        }
        let of_phase = counter(stage, &format!("{witness}:{phase}"));
        ensure(of_phase > 0, "the phase never held")?;
    }
    let last = counter(stage, &format!("{witness}:new"));
    stop(workers).await?;
    ensure(counter(stage, witness) == 0, "a holder is left")?;
    let rounds = counter(stage, &format!("{witness}:rounds"));
    println!(
        "  deploy of {} processes: {rounds} rounds in {:.1?}, never two holders, {last} by the new lock",
        stage.options.processes,
        start.elapsed()
    );
    Ok(())
}

fn theirs(stage: &Stage<'_>, name: &str, witness: &str) -> Outcome<Peer> {
    let mut peer = stage.peer();
    peer.send(&format!("work {name} {witness} 30000"))?;
    Ok(peer)
}

/// Waits until the name was held ten times more.
async fn goes_on(stage: &Stage<'_>, workers: &mut [Peer], witness: &str) -> Outcome {
    let key = format!("{witness}:rounds");
    let until = counter(stage, &key) + 10;
    let mut last = (0, Instant::now());
    loop {
        let rounds = counter(stage, &key);
        if rounds >= until {
            return Ok(());
        }
        progress(workers, &mut last, rounds)?;
        sleep(Duration::from_millis(5)).await;
    }
}

/// Fails if a worker has said something, or if nothing has happened for a minute.
fn progress(workers: &mut [Peer], last: &mut (u64, Instant), rounds: u64) -> Outcome {
    if let Some(line) = workers.iter_mut().find_map(Peer::said) {
        return Err(format!("a worker says {line:?}").into());
    }
    if rounds > last.0 {
        *last = (rounds, Instant::now());
    }
    ensure(
        last.1.elapsed() < Duration::from_secs(90),
        "nobody got the lock for 90 s",
    )
}

async fn stop(workers: Vec<Peer>) -> Outcome {
    for worker in workers {
        worker.finish().await?;
    }
    Ok(())
}

fn counter(stage: &Stage<'_>, key: &str) -> u64 {
    match stage.server.command(&["GET", key]) {
        Reply::Nil => 0,
        reply => reply.text().parse().expect("a counter"),
    }
}
