//! W5, W7, W8 and W14: a contended pool of permits, the fair lock, many readers of one name, and
//! checks of a rate.

use std::time::Duration;

use super::{Outcome, contenders, label, own_worker, owns};
use crate::{
    cli::Plan,
    contender::{Contender, GCRA, LIMIT, RAW_POOL},
    job::Names,
    report::{
        Bound::{AtLeast, AtMost},
        Report, Wanted,
    },
    rig::Rig,
    rounds::held,
};

/// Measures a pool of [`PERMITS`](crate::job::PERMITS) permits that many tasks want, beside a
/// minimal one.
pub(super) async fn semaphore(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let mut contenders = owns([RAW_POOL, SEMAPHORE], rig, 1).await?;
    for (tasks, hold, used) in POOLS {
        let case = plan.case(label(tasks), Names::Pool, tasks).held(hold);
        report.compare(&mut contenders, &case).await?;
        let of_raw = "server CPU, of the raw pool's";
        let wanted = [
            used,
            (of_raw, "server µs", Some(RAW_POOL), AtMost(2.0)),
            ("max/min", "max/min", None, AtMost(1.2)),
        ];
        report.want(&case.label, SEMAPHORE, &wanted);
    }
    let [few, many] = [POOLS[0], POOLS[3]].map(|(tasks, hold, _)| held(&label(tasks), hold));
    let growth = report.growth(SEMAPHORE, "server µs", [&few, &many]);
    let what = "server CPU per acquisition, 512 tasks to 64";
    report.target(what, AtMost(1.2), growth);
    report.note(
        "p50 and p99 are of an acquisition, from its call to its return. A permit is busy from the \
         return of an acquisition to the call of its release; the time between is that of a hand-off.",
    );
    Ok(())
}

/// Measures the fair lock. Each task acquires the name so often that the total is about [`ENOUGH`]
/// acquisitions. With more tasks than that, each acquires it once.
pub(super) async fn fair(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let mut contenders = owns(["fair"], rig, 1).await?;
    for tasks in SIZES {
        let case = plan.case(label(tasks), Names::One, tasks);
        let case = case.of_pairs((ENOUGH / tasks).max(1));
        report.compare(&mut contenders, &case).await?;
    }
    // Ten thousand is the fourth power of ten: a cost that grows with the logarithm grows four
    // times, and most of the cost does not grow.
    for (what, measure, most) in [
        ("server CPU", "server µs", 4.0),
        ("commands", "commands", 1.5),
    ] {
        let growth = report.growth("fair", measure, [&label(10), &label(10_000)]);
        let what = format!("{what} per acquisition, 10,000 tasks to 10");
        report.target(what, AtMost(most), growth);
    }
    report.note("All tasks queue at once; a queue of so many runs empty when each has had its turns. p50 and p99 are of a hand-off.");
    Ok(())
}

/// Measures checks that pass, with a key per task and with one key for all, beside the bare script.
pub(super) async fn checks(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let mut contenders = contenders(plan, rig, [GCRA, LIMIT], 1).await?;
    for (tasks, names, key) in [
        (1, Names::Own, ""),
        (64, Names::Own, ""),
        (512, Names::Own, ""),
        (64, Names::Pool, ", one key"),
    ] {
        let case = plan.case(format!("{}{key}", label(tasks)), names, tasks);
        // Programs in other languages know no key for all.
        let some = if key.is_empty() { contenders.len() } else { 2 };
        report.compare(&mut contenders[..some], &case).await?;
        if tasks == 64 {
            let what = "checks/s, of the bare script's";
            let wanted = [(what, "pairs/s", Some(GCRA), AtLeast(0.9))];
            report.want(&case.label, LIMIT, &wanted);
        }
    }
    report.note("A pair is one check, which passes.");
    Ok(())
}

/// Measures a crowd of readers: all enter, and when all are in, all leave.
pub(super) async fn readers(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let words = own_worker("read")?;
    let mut contenders = [Contender::start("redlatch", &words, 1, rig).await?];
    let label = |readers: usize| format!("{readers} readers");
    for readers in SIZES {
        let case = plan.case(label(readers), Names::Crowd, readers);
        let case = case.of_pairs((ENOUGH / readers).max(1));
        report.compare(&mut contenders, &case).await?;
    }
    let growth = report.growth("redlatch", "server µs", [&label(10), &label(10_000)]);
    let what = "server CPU per read, 10,000 readers to 10";
    report.target(what, AtMost(4.0), growth);
    Ok(())
}

/// The number of tasks that want a permit, the time for which each holds one, and what is wanted.
const POOLS: [(usize, Duration, Wanted); 4] = [
    (64, Duration::ZERO, RATE),
    (64, Duration::from_millis(1), busy(92.0)),
    (64, Duration::from_millis(5), busy(97.0)),
    (512, Duration::ZERO, RATE),
];

const RATE: Wanted = (
    "pairs/s, of the raw pool's",
    "pairs/s",
    Some(RAW_POOL),
    AtLeast(0.8),
);

const fn busy(least: f64) -> Wanted {
    ("permits busy, %", "busy %", None, AtLeast(least))
}

const SEMAPHORE: &str = "semaphore";

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// The smallest number of pairs in one round, so that the server's CPU time exceeds the noise.
const ENOUGH: usize = 3_000;
