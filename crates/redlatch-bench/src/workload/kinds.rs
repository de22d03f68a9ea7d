//! W5, W7 and W14: a contended pool of permits, the fair lock, and checks of a rate.

use std::time::Duration;

use super::{Reported, handoff::held, others, owns, pairs::label};
use crate::{
    cli::Plan,
    contender::{GCRA, LIMIT, RAW_POOL},
    job::{Names, Until},
    report::{
        Bound::{AtLeast, AtMost},
        Report,
    },
    rig::Rig,
    rounds::Case,
};

/// Measures a pool of [`PERMITS`](crate::job::PERMITS) permits that many tasks want, beside a
/// minimal one.
pub(super) async fn semaphore(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns([RAW_POOL, SEMAPHORE], rig).await?;
    for (tasks, hold) in POOLS {
        let case = plan.case(held(&label(tasks), hold), Names::Pool { hold }, tasks);
        let rounds = plan.effort.rounds;
        report.compare(rig, &mut contenders, &case, rounds).await?;
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
            until: Until::Pairs((ENOUGH / tasks as u64).max(1)),
            ..plan.case(label(tasks), Names::One { hold }, tasks)
        };
        let rounds = plan.effort.rounds;
        report.compare(rig, &mut contenders, &case, rounds).await?;
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
        report.compare(rig, some, &case, plan.effort.rounds).await?;
        if tasks == 64 {
            let rate = report.ratio(&case.label, LIMIT, GCRA, "pairs/s");
            let of_script = ("checks/s, of the bare script's", AtLeast(0.9), rate);
            report.targets(&case.label, [of_script]);
        }
    }
    report.note("A pair is one check, which passes.");
    Ok(report)
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

const ENOUGH: u64 = 3_000;
