//! W5, W7, W8 and W14: a contended pool of permits, the fair lock, many readers of one name, and
//! checks of a rate.

use std::time::Duration;

use redlatch::{Error, ReadGuard};
use tokio::task::JoinSet;

use super::{Reported, handoff::held, others, owns, pairs::label};
use crate::{
    cli::Plan,
    clock,
    contender::{Failure, GCRA, LIMIT, RAW_POOL, connect_redlatch},
    job::{Names, Until},
    report::{
        Bound::{AtLeast, AtMost},
        Report, Series,
    },
    rig::Rig,
    rounds::{Case, costs, unique},
};

/// Measures a pool of [`PERMITS`](crate::job::PERMITS) permits that many tasks want, beside a
/// minimal one.
pub(super) async fn semaphore(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns([RAW_POOL, SEMAPHORE], rig).await?;
    for (tasks, hold) in POOLS {
        let case = plan.case(held(&label(tasks), hold), Names::Pool { hold }, tasks);
        report.compare(rig, &mut contenders, &case).await?;
    }
    pool_targets(&mut report);
    report.note(
        "p50 and p99 are of an acquisition, from its call to its return. A permit is busy from the \
         return of an acquisition to the call of its release; the time between is that of a hand-off.",
    );
    Ok(report)
}

fn pool_targets(report: &mut Report) {
    for (tasks, hold) in POOLS {
        let case = held(&label(tasks), hold);
        let ratio = |measure| report.ratio(&case, SEMAPHORE, RAW_POOL, measure);
        let own = |measure| report.median(&case, SEMAPHORE, measure);
        let used = if hold.is_zero() {
            let rate = ratio("pairs/s");
            ("pairs/s, of the raw pool's", AtLeast(0.8), rate)
        } else {
            let short = hold < Duration::from_millis(5);
            let wanted = AtLeast(if short { 92.0 } else { 97.0 });
            ("permits busy, %", wanted, own("busy %"))
        };
        let (server, unfairness) = (ratio("server µs"), own("max/min"));
        let server = ("server CPU, of the raw pool's", AtMost(2.0), server);
        let fair = ("max/min", AtMost(1.2), unfairness);
        report.targets(&case, [used, server, fair]);
    }
    let [few, many] = [POOLS[0], POOLS[3]].map(|(tasks, hold)| {
        let case = held(&label(tasks), hold);
        report.median(&case, SEMAPHORE, "server µs")
    });
    let what = "server CPU per acquisition, 512 tasks to 64";
    report.target(what, AtMost(1.2), many / few);
}

/// Measures the fair lock. Each task acquires the name so often that the total is about [`ENOUGH`]
/// acquisitions. With more tasks than that, each acquires it once.
pub(super) async fn fair(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns(["fair"], rig).await?;
    let hold = Duration::ZERO;
    for tasks in SIZES {
        let case = Case {
            until: Until::Pairs((ENOUGH / tasks).max(1) as u64),
            ..plan.case(label(tasks), Names::One { hold }, tasks)
        };
        report.compare(rig, &mut contenders, &case).await?;
    }
    let median = |tasks, measure| report.median(&label(tasks), "fair", measure);
    let (first, last) = (SIZES[0], SIZES[SIZES.len() - 1]);
    let growth = |measure| median(last, measure) / median(first, measure);
    let (server, commands) = (growth("server µs"), growth("commands"));
    // Ten thousand is the fourth power of ten: a cost that grows with the logarithm grows four
    // times, and most of the cost does not grow.
    let what = "server CPU per acquisition, 10,000 tasks to 10";
    report.target(what, AtMost(4.0), server);
    let what = "commands per acquisition, 10,000 tasks to 10";
    report.target(what, AtMost(1.5), commands);
    report.note("All tasks queue at once; a queue of so many runs empty when each has had its turns. p50 and p99 are of a hand-off.");
    Ok(report)
}

/// Measures checks that pass, with a key per task and with one key for all, beside the bare script.
pub(super) async fn checks(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns([GCRA, LIMIT], rig).await?;
    contenders.append(&mut others(plan, rig).await?);
    let hold = Duration::ZERO;
    for (tasks, names, key) in [
        (1, Names::Own, ""),
        (64, Names::Own, ""),
        (512, Names::Own, ""),
        (64, Names::Pool { hold }, ", one key"),
    ] {
        let case = plan.case(format!("{}{key}", label(tasks)), names, tasks);
        // Programs in other languages know no key for all.
        let some = if key.is_empty() { contenders.len() } else { 2 };
        let some = &mut contenders[..some];
        report.compare(rig, some, &case).await?;
        if tasks == 64 {
            let rate = report.ratio(&case.label, LIMIT, GCRA, "pairs/s");
            let of_script = ("checks/s, of the bare script's", AtLeast(0.9), rate);
            report.targets(&case.label, [of_script]);
        }
    }
    report.note("A pair is one check, which passes.");
    Ok(report)
}

/// Measures a crowd of readers: all enter, and when all are in, all leave.
pub(super) async fn readers(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let client = connect_redlatch(&rig.url()).await?;
    for readers in SIZES {
        let mut series = Series::new(&readers_label(readers), "redlatch");
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
                let sample = costs(pairs as u64, wall, cpu, counted, "evalsha,eval");
                series.samples.push(sample);
            }
        }
        report.series.push(series);
    }
    let median = |readers| report.median(&readers_label(readers), "redlatch", "server µs");
    let growth = median(SIZES[SIZES.len() - 1]) / median(SIZES[0]);
    let what = "server CPU per read, 10,000 readers to 10";
    report.target(what, AtMost(4.0), growth);
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

fn readers_label(readers: usize) -> String {
    format!("{readers} readers")
}

/// The number of tasks that want a permit, and the time for which each holds one.
const POOLS: [(usize, Duration); 4] = [
    (64, Duration::ZERO),
    (64, Duration::from_millis(1)),
    (64, Duration::from_millis(5)),
    (512, Duration::ZERO),
];

const SEMAPHORE: &str = "semaphore";

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// The smallest number of pairs in one round, so that the server's CPU time exceeds the noise.
const ENOUGH: usize = 3_000;
