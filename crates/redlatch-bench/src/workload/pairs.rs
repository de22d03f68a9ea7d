//! W1 and W2: no contention.

use super::{Reported, contenders, limit, own, owns, wants};
use crate::{
    cli::Plan,
    contender::{EVERY_KIND, Failure, RAW, SCRIPTS},
    job::Names,
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

pub(super) async fn one_task(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    measure(&mut report, plan, rig, &[1]).await?;
    let case = label(1);
    report.target(
        "pairs/s, of the raw pair's",
        Bound::AtLeast(0.88),
        report.ratio(&case, "redlatch", RAW, "pairs/s"),
    );
    Ok(report)
}

pub(super) async fn many_tasks(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let sizes = [64, 512];
    measure(&mut report, plan, rig, &sizes).await?;
    for tasks in sizes {
        targets(&mut report, &label(tasks));
    }
    Ok(report)
}

/// Measures uncontended pairs of every kind, beside the raw pair.
pub(super) async fn every_kind(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let names = std::iter::once(RAW).chain(EVERY_KIND);
    let mut contenders = owns(names, rig).await?;
    let case = Case::timed(label(64), Names::Own, 64, plan.effort.time);
    report.series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
    for name in EVERY_KIND.into_iter().skip(1) {
        report.target(
            format!("{name}: server CPU per pair, of the raw pair's"),
            Bound::AtMost(2.0),
            report.ratio(&case.label, name, RAW, "server µs"),
        );
    }
    Ok(report)
}

/// Measures a load of which one name in ten is contended.
pub(super) async fn mixed(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns(["redlatch", "rslock", "polling"], rig).await?;
    let case = Case::timed(
        "512 tasks, 200 names".to_owned(),
        Names::Mixed,
        512,
        plan.effort.time,
    );
    report.series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
    Ok(report)
}

/// Measures one task that makes a pair now and then, with 0 to 512 busy tasks beside it. All have
/// names of their own.
pub(super) async fn beside(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut contenders = owns([RAW, "redlatch", "rslock"], rig).await?;
    for busy in [0, 3, 64, 512] {
        let case = Case::timed(
            format!("beside {busy}"),
            Names::Beside,
            busy + 1,
            plan.effort.time,
        );
        let series = interleaved(rig, &mut contenders, &case, plan.effort.rounds).await?;
        report.series.extend(series);
    }
    report.notes.push(
        "p50 and p99 are of the task that rests for 1 ms before each pair; the other figures are of \
         all tasks."
            .to_owned(),
    );
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
        let case = Case::timed(label(tasks), Names::Own, tasks, plan.effort.time);
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
    let own = |measure| report.median(case, "redlatch", measure);
    let found = [
        (
            "server CPU per pair, of the raw pair's",
            Bound::AtMost(if case == label(64) { 1.3 } else { 1.4 }),
            ratio(RAW, "server µs"),
        ),
        (
            "client CPU per pair, µs",
            Bound::AtMost(9.0),
            own("client µs"),
        ),
        (
            "pairs/s, of rslock's",
            Bound::AtLeast(1.0),
            ratio("rslock", "pairs/s"),
        ),
        ("commands per pair", Bound::AtMost(2.01), own("commands")),
    ];
    report.targets(case, found);
}
