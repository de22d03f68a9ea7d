//! W5 and W7: other primitives of redlatch, without other contenders.

use std::time::Duration;

use super::{own, pairs::label};
use crate::{
    cli::Plan,
    contender::{Contender, Failure},
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

pub(super) async fn semaphore(
    mut report: Report,
    plan: &Plan,
    rig: &Rig,
) -> Result<Report, Failure> {
    let case = Case {
        label: "64 waiters".to_owned(),
        names: Names::Shared,
        tasks: 64,
        until: Until::Time(plan.effort.time),
    };
    let mut contenders = one("semaphore", rig).await?;
    report.series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
    report
        .notes
        .push("p50 and p99 are of an acquisition and its release.".to_owned());
    Ok(report)
}

/// Measures the fair lock. Each task acquires the name so often that the total is about [`ENOUGH`]
/// acquisitions. With more tasks than that, each acquires it once.
pub(super) async fn fair(mut report: Report, plan: &Plan, rig: &Rig) -> Result<Report, Failure> {
    let mut contenders = one("fair", rig).await?;
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
    let median = |tasks, measure| {
        let series = report.find(&label(tasks), "fair");
        series.map_or(f64::NAN, |series| series.median(measure))
    };
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

async fn one(name: &str, rig: &Rig) -> Result<Vec<Box<dyn Contender>>, Failure> {
    Ok(vec![Box::new(own(name, rig).await?)])
}

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

const ENOUGH: u64 = 3_000;
