//! W3: everybody wants the same name, in one process.

use super::{contenders, limit};
use crate::{
    cli::Plan,
    contender::{Failure, InProcess, REFERENCE},
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

pub(super) async fn in_one_process(
    mut report: Report,
    plan: &Plan,
    rig: &Rig,
) -> Result<Report, Failure> {
    // The raw pair knows no waiters. What it is compared with is measured apart.
    let mut contenders = contenders(plan, rig).await?;
    contenders.retain(|contender| contender.name() != REFERENCE);
    if plan.only.is_empty() {
        // The other kinds of redlatch that one at a time can have.
        for kind in ["fair", "write"] {
            contenders.push(Box::new(InProcess::connect(kind, &rig.url()).await?));
        }
    }
    let rounds = plan.effort.rounds;
    for waiters in SIZES {
        let case = Case {
            label: label(waiters),
            names: Names::One,
            tasks: waiters,
            until: Until::Time(plan.effort.time),
        };
        let floor = limit::message_floor(rig, &case.label, rounds).await?;
        report.series.push(floor);
        let series = interleaved(rig, &mut contenders, &case, rounds).await?;
        report.series.extend(series);
    }
    for waiters in SIZES {
        targets(&mut report, &label(waiters));
    }
    let commands = |waiters| {
        let series = report.find(&label(waiters), "redlatch");
        series.map_or(f64::NAN, |series| series.median("commands"))
    };
    let growth = commands(SIZES[SIZES.len() - 1]) / commands(SIZES[1]);
    report.target(
        "commands per acquisition, 1,000 waiters to 16",
        Bound::AtMost(1.1),
        growth,
    );
    report.notes.push(FLOOR.to_owned());
    Ok(report)
}

fn targets(report: &mut Report, case: &str) {
    let ratio = report.ratio(case, "redlatch", REFERENCE, "p50 µs");
    report.target(
        format!("{case}: p50, of the floor's"),
        Bound::AtMost(1.3),
        ratio,
    );
    let series = report.find(case, "redlatch");
    let commands = series.map_or(f64::NAN, |series| series.median("commands"));
    report.target(format!("{case}: commands"), Bound::AtMost(3.0), commands);
}

fn label(waiters: usize) -> String {
    match waiters {
        1_000 => "1,000 waiters".to_owned(),
        waiters => format!("{waiters} waiters"),
    }
}

pub(super) const FLOOR: &str = "p50 and p99 are of a hand-off, from the call of a release to the return of the next acquisition. `raw` is the floor, \
    PUBLISH → message → EVALSHA through the same client crate; the p50 of its rounds is what the others' is compared with, round by round.";

const SIZES: [usize; 4] = [2, 16, 128, 1_000];
