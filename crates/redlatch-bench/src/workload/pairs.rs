//! W1 and W2: no contention.

use super::{contenders, limit, own, wants};
use crate::{
    cli::Plan,
    contender::{Failure, RAW, SCRIPTS},
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

pub(super) async fn one_task(
    mut report: Report,
    plan: &Plan,
    rig: &Rig,
) -> Result<Report, Failure> {
    measure(&mut report, plan, rig, &[1]).await?;
    let case = label(1);
    report.target(
        "pairs/s, of the raw pair's",
        Bound::AtLeast(0.9),
        report.ratio(&case, "redlatch", RAW, "pairs/s"),
    );
    Ok(report)
}

pub(super) async fn many_tasks(
    mut report: Report,
    plan: &Plan,
    rig: &Rig,
) -> Result<Report, Failure> {
    let sizes = [64, 512];
    measure(&mut report, plan, rig, &sizes).await?;
    for tasks in sizes {
        targets(&mut report, &label(tasks));
    }
    Ok(report)
}

/// Measures pairs of acquisition and release with these numbers of tasks.
pub(super) async fn measure(
    report: &mut Report,
    plan: &Plan,
    rig: &Rig,
    sizes: &[usize],
) -> Result<(), Failure> {
    let mut contenders = contenders(plan, rig).await?;
    if wants(plan, SCRIPTS) {
        contenders.push(Box::new(own(SCRIPTS, rig).await?));
    }
    for &tasks in sizes {
        let case = Case {
            label: label(tasks),
            names: Names::Own,
            tasks,
            until: Until::Time(plan.effort.time),
        };
        let series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
        report.series.extend(series);
        report.series.extend(limit::redis_benchmark(
            rig,
            &case.label,
            tasks,
            plan.effort.rounds,
        )?);
    }
    Ok(())
}

pub(super) fn label(tasks: usize) -> String {
    match tasks {
        1 => "1 task".to_owned(),
        tasks => format!("{tasks} tasks"),
    }
}

fn targets(report: &mut Report, case: &str) {
    let ratio = |reference, measure| report.ratio(case, "redlatch", reference, measure);
    let own = |measure| {
        report
            .find(case, "redlatch")
            .map_or(f64::NAN, |one| one.median(measure))
    };
    let found = [
        (
            "server CPU per pair, of the raw pair's",
            Bound::AtMost(1.5),
            ratio(RAW, "server µs"),
        ),
        (
            "client CPU per pair, µs",
            Bound::AtMost(12.0),
            own("client µs"),
        ),
        (
            "pairs/s, of rslock's",
            Bound::AtLeast(1.0),
            ratio("rslock", "pairs/s"),
        ),
        ("commands per pair", Bound::AtMost(2.01), own("commands")),
    ];
    for (what, bound, value) in found {
        report.target(format!("{case}: {what}"), bound, value);
    }
}
