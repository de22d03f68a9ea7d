//! W3: everybody wants the same name, in one process.

use std::time::Duration;

use super::{contenders, own, wants};
use crate::{
    cli::Plan,
    contender::{Contender, FLOOR, Failure, Floor, KINDS, RAW},
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
    stats::span,
};

pub(super) async fn in_one_process(
    mut report: Report,
    plan: &Plan,
    rig: &Rig,
) -> Result<Report, Failure> {
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(Floor::connect(&rig.url()).await?)];
    // The raw pair knows no waiters; what it is to a pair, the floor is to a hand-off.
    let mut others = contenders(plan, rig).await?;
    others.retain(|contender| contender.name() != RAW);
    all.append(&mut others);
    for kind in KINDS.into_iter().filter(|kind| wants(plan, kind)) {
        all.push(Box::new(own(kind, rig).await?));
    }
    let holds = if plan.latency.is_zero() {
        &HOLDS[..]
    } else {
        &HOLDS[..2]
    };
    for &hold in holds {
        for waiters in SIZES {
            let case = Case {
                label: label(waiters, hold),
                names: Names::One { hold },
                tasks: waiters,
                until: Until::Time(long_enough(plan, waiters, hold)),
            };
            let series = interleaved(rig, &mut all, &case, rounds(plan, hold)).await?;
            report.series.extend(series);
        }
    }
    for &hold in holds {
        for waiters in SIZES {
            targets(&mut report, &label(waiters, hold));
        }
        flat(&mut report, &SIZES.map(|waiters| label(waiters, hold)));
    }
    report.notes.push(NOTE.to_owned());
    report.plotted = PLOTTED;
    Ok(report)
}

/// What the project wants of each hand-off.
pub(super) fn targets(report: &mut Report, case: &str) {
    let ratio = report.ratio(case, "redlatch", FLOOR, "p50 µs");
    report.target(
        format!("{case}: p50, of the floor's"),
        Bound::AtMost(1.3),
        ratio,
    );
    let commands = commands(report, case);
    // Three, and what was on its way when counting began and ended.
    report.target(format!("{case}: commands"), Bound::AtMost(3.05), commands);
}

/// Compares the commands of cases that differ in nothing but how many wait.
pub(super) fn flat(report: &mut Report, cases: &[String]) {
    let (Some(first), Some(last)) = (cases.first(), cases.last()) else {
        return;
    };
    let found = cases.iter().map(|case| commands(report, case));
    let (least, most) = found.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
        (least.min(one), most.max(one))
    });
    report.target(
        format!("commands from {first} to {last}, the most of the least"),
        Bound::AtMost(1.1),
        most / least,
    );
}

/// Where holds have a length rounds are long, so there are fewer.
pub(super) fn rounds(plan: &Plan, hold: Duration) -> usize {
    if hold.is_zero() && plan.latency.is_zero() {
        plan.effort.rounds
    } else {
        plan.effort.few
    }
}

fn commands(report: &Report, case: &str) -> f64 {
    let series = report.find(case, "redlatch");
    series.map_or(f64::NAN, |series| series.median("commands"))
}

/// In one turn after the other, most would have the name once or twice; for those who are not
/// served in turn that is long enough too.
fn long_enough(plan: &Plan, waiters: usize, hold: Duration) -> Duration {
    let handoff = Duration::from_micros(150) + plan.latency * 5 / 2;
    let turns = u32::try_from(waiters * 3).unwrap_or(u32::MAX);
    plan.effort.time.max((hold + handoff) * turns / 2)
}

fn label(waiters: usize, hold: Duration) -> String {
    let waiters = match waiters {
        1_000 => "1,000 waiters".to_owned(),
        waiters => format!("{waiters} waiters"),
    };
    held(&waiters, hold)
}

/// Says how long the holds of a case are, if they have a length.
pub(super) fn held(case: &str, hold: Duration) -> String {
    if hold.is_zero() {
        case.to_owned()
    } else {
        format!("{case}, held {}", span(hold))
    }
}

pub(super) const NOTE: &str = "p50 and p99 are of a hand-off, from the call of a release to the return of the next acquisition. `floor` is PUBLISH → message → EVALSHA through the \
    same client crate, from one who has just had its own script answered to one who is subscribed and waits; it takes turns with the others, and ratios are to it, round by round. Commands are those of the middle of each round, when all wait and nobody goes yet.";

/// What says how a hand-off is.
pub(super) const PLOTTED: &[&str] = &["p50 µs", "p99 µs", "commands"];

const SIZES: [usize; 4] = [2, 16, 128, 1_000];

/// If holds have no length, the next of the process is never told that the name is taken; if they
/// last, everybody waits for a message.
const HOLDS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_micros(200),
    Duration::from_millis(2),
];
