//! W5 and W7: a contended pool of permits, and the fair lock.

use std::time::Duration;

use super::{Reported, handoff::held, owns, pairs::label};
use crate::{
    cli::Plan,
    contender::RAW_POOL,
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

/// Measures a pool of [`PERMITS`](crate::job::PERMITS) permits that many tasks want, beside a
/// minimal one.
pub(super) async fn semaphore(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns([RAW_POOL, SEMAPHORE], rig).await?;
    for (tasks, hold) in POOLS {
        let case = Case::timed(
            held(&label(tasks), hold),
            Names::Pool { hold },
            tasks,
            plan.effort.time,
        );
        let series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
        report.series.extend(series);
    }
    pool_targets(&mut report);
    report.notes.push(
        "p50 and p99 are of an acquisition, from its call to its return. A permit is busy from the \
         return of an acquisition to the call of its release; the time between is that of a hand-off."
            .to_owned(),
    );
    Ok(report)
}

fn pool_targets(report: &mut Report) {
    let own = |report: &Report, case: &str, measure| report.median(case, SEMAPHORE, measure);
    for (tasks, hold) in POOLS {
        let case = held(&label(tasks), hold);
        let ratio = |measure| report.ratio(&case, SEMAPHORE, RAW_POOL, measure);
        let (rate, server) = (ratio("pairs/s"), ratio("server µs"));
        if hold.is_zero() {
            report.target(
                format!("{case}: pairs/s, of the raw pool's"),
                Bound::AtLeast(0.8),
                rate,
            );
        } else {
            let wanted = if hold < Duration::from_millis(5) {
                92.0
            } else {
                97.0
            };
            let busy = own(report, &case, "busy %");
            report.target(
                format!("{case}: permits busy, %"),
                Bound::AtLeast(wanted),
                busy,
            );
        }
        report.target(
            format!("{case}: server CPU, of the raw pool's"),
            Bound::AtMost(2.0),
            server,
        );
        let unfairness = own(report, &case, "max/min");
        report.target(format!("{case}: max/min"), Bound::AtMost(1.2), unfairness);
    }
    let [few, many] = [POOLS[0], POOLS[3]]
        .map(|(tasks, hold)| own(report, &held(&label(tasks), hold), "server µs"));
    report.target(
        "server CPU per acquisition, 512 tasks to 64",
        Bound::AtMost(1.2),
        many / few,
    );
}

/// Measures the fair lock. Each task acquires the name so often that the total is about [`ENOUGH`]
/// acquisitions. With more tasks than that, each acquires it once.
pub(super) async fn fair(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns(["fair"], rig).await?;
    for tasks in SIZES {
        let case = Case {
            label: label(tasks),
            names: Names::One {
                hold: Duration::ZERO,
            },
            tasks,
            until: Until::Pairs((ENOUGH / tasks as u64).max(1)),
        };
        let series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
        report.series.extend(series);
    }
    let median = |tasks, measure| report.median(&label(tasks), "fair", measure);
    let (first, last) = (SIZES[0], SIZES[SIZES.len() - 1]);
    let growth = |measure| median(last, measure) / median(first, measure);
    let (server, commands) = (growth("server µs"), growth("commands"));
    // Ten thousand is the fourth power of ten: a cost that grows with the logarithm grows four
    // times, and most of the cost does not grow.
    report.target(
        "server CPU per acquisition, 10,000 tasks to 10",
        Bound::AtMost(4.0),
        server,
    );
    report.target(
        "commands per acquisition, 10,000 tasks to 10",
        Bound::AtMost(1.5),
        commands,
    );
    report.notes.push("All tasks queue at once; a queue of so many runs empty when each has had its turns. p50 and p99 are of a hand-off.".to_owned());
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
