//! W8: many readers have one name at once.

use tokio::task::JoinSet;

use super::Reported;
use crate::{
    cli::Plan,
    clock,
    contender::{Failure, connect_redlatch},
    report::{Bound, Report, Sample, Series},
    rig::Rig,
    rounds::unique,
};

/// Measures a crowd of readers: all enter, and when all are in, all leave.
pub(super) async fn crowd(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let client = connect_redlatch(&rig.url()).await?;
    let verbs = ["evalsha".to_owned(), "eval".to_owned()];
    for readers in SIZES {
        let mut series = Series::new(&label(readers), "redlatch");
        for round in 0..=plan.effort.rounds {
            let (counted, cpu, began) = (rig.counted(), clock::own_cpu(), clock::monotonic());
            let mut pairs = 0;
            while pairs < ENOUGH {
                come_and_go(&client.read_write_lock(unique()), readers).await?;
                pairs += readers;
            }
            let pairs = pairs as f64;
            let (cpu, after) = (clock::own_cpu() - cpu, rig.counted());
            let seconds = (clock::monotonic() - began) as f64 / 1e9;
            let server = (after.cpu - counted.cpu).as_secs_f64();
            let calls = after.calls_since(&counted, &verbs) as f64;
            // The first round is a warm-up.
            if round > 0 {
                series.samples.push(Sample::from([
                    ("pairs/s", pairs / seconds),
                    ("client µs", cpu.as_secs_f64() * 1e6 / pairs),
                    ("server µs", server * 1e6 / pairs),
                    ("commands", calls / pairs),
                ]));
            }
        }
        report.series.push(series);
    }
    let median = |readers| report.median(&label(readers), "redlatch", "server µs");
    let growth = median(SIZES[SIZES.len() - 1]) / median(SIZES[0]);
    report.target(
        "server CPU per read, 10,000 readers to 10",
        Bound::AtMost(4.0),
        growth,
    );
    Ok(report)
}

async fn come_and_go(lock: &redlatch::ReadWriteLock, readers: usize) -> Result<(), Failure> {
    let mut coming = JoinSet::new();
    for _ in 0..readers {
        let lock = lock.clone();
        coming.spawn(async move { lock.read().await });
    }
    let mut inside = Vec::with_capacity(readers);
    while let Some(guard) = coming.join_next().await {
        inside.push(guard??);
    }
    let mut going = JoinSet::new();
    for guard in inside {
        going.spawn(async move { guard.release().await });
    }
    while let Some(released) = going.join_next().await {
        released??;
    }
    Ok(())
}

fn label(readers: usize) -> String {
    format!("{readers} readers")
}

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// The smallest number of reads in one round, so that the server's CPU time exceeds the noise.
const ENOUGH: usize = 3_000;
