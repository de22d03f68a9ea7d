//! W8: many readers have one name at once.

use std::time::Duration;

use redlatch::{Error, ReadGuard};
use tokio::task::JoinSet;

use super::Reported;
use crate::{
    cli::Plan,
    clock,
    contender::{Failure, connect_redlatch},
    report::{Bound, Report, Series},
    rig::Rig,
    rounds::{costs, unique},
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
            let (cpu, after) = (clock::own_cpu() - cpu, rig.counted());
            let wall = Duration::from_nanos(clock::monotonic() - began);
            // The first round is a warm-up.
            if round > 0 {
                let counted = [&counted, &after];
                let sample = costs(pairs as u64, wall, cpu, counted, &verbs);
                series.samples.push(sample);
            }
        }
        report.series.push(series);
    }
    let median = |readers| report.median(&label(readers), "redlatch", "server µs");
    let growth = median(SIZES[SIZES.len() - 1]) / median(SIZES[0]);
    let what = "server CPU per read, 10,000 readers to 10";
    report.target(what, Bound::AtMost(4.0), growth);
    Ok(report)
}

async fn come_and_go(lock: &redlatch::ReadWriteLock, readers: usize) -> Result<(), Failure> {
    let coming = (0..readers).map(|_| lock.read().into_future());
    let inside = all(coming).await?;
    all(inside.into_iter().map(ReadGuard::release)).await?;
    Ok(())
}

/// Runs all calls at once, each in its own task, and returns what they return.
async fn all<T: Send + 'static>(
    calls: impl Iterator<Item: Future<Output = Result<T, Error>> + Send + 'static>,
) -> Result<Vec<T>, Failure> {
    let ended = calls.collect::<JoinSet<_>>().join_all().await;
    Ok(ended.into_iter().collect::<Result<_, _>>()?)
}

fn label(readers: usize) -> String {
    format!("{readers} readers")
}

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// The smallest number of reads in one round, so that the server's CPU time exceeds the noise.
const ENOUGH: usize = 3_000;
