//! W3 and W4: all tasks want the same name, in one process, or in several.

use std::time::Duration;

use super::{Outcome, contenders};
use crate::{
    cli::Plan,
    clock::nanos,
    contender::{FLOOR, KINDS, KNOWN, RAW},
    job::Names,
    report::{Bound::AtMost, Report},
    rig::Rig,
    rounds::{Case, held},
    stats::grouped,
};

pub(super) async fn in_one_process(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    let mut all = contenders(plan, rig, names(), 1).await?;
    let holds = if plan.latency.is_zero() {
        &HOLDS[..]
    } else {
        &HOLDS[..2]
    };
    for &hold in holds {
        for waiters in SIZES {
            let mut case = case(plan, label(waiters), waiters, hold);
            case.job.time = nanos(long_enough(plan, waiters, hold));
            report.compare(&mut all, &case).await?;
            targets(report, &case.label);
        }
        flat(report, &SIZES.map(|waiters| held(&label(waiters), hold)));
    }
    report.note(NOTE);
    report.plotted = PLOTTED;
    Ok(())
}

/// Returns the contenders. The raw pair has no waiters. The floor is for hand-offs what the raw
/// pair is for pairs.
fn names() -> impl Iterator<Item = &'static str> {
    let others = KNOWN.into_iter().filter(|name| *name != RAW);
    [FLOOR].into_iter().chain(others).chain(KINDS)
}

/// Returns a case of one name. Holds with a duration make rounds long, so there are fewer.
fn case(plan: &Plan, label: String, tasks: usize, hold: Duration) -> Case {
    let mut case = plan.case(label, Names::One, tasks).held(hold);
    if !hold.is_zero() || !plan.latency.is_zero() {
        case.rounds = plan.effort.few;
    }
    case
}

/// Adds the project's targets for a hand-off.
fn targets(report: &mut Report, case: &str) {
    let wanted = [
        ("p50, of the floor's", "p50 µs", Some(FLOOR), AtMost(1.3)),
        // The limit is three commands, plus commands that were on the way when counting began and
        // ended.
        ("commands", "commands", None, AtMost(3.05)),
    ];
    report.want(case, "redlatch", &wanted);
}

/// Compares the commands of cases that differ only in the number of waiters.
fn flat(report: &mut Report, cases: &[String]) {
    let (Some(first), Some(last)) = (cases.first(), cases.last()) else {
        return;
    };
    let commands = |case: &String| report.median(case, "redlatch", "commands");
    let least = cases.iter().map(commands).fold(f64::INFINITY, f64::min);
    let most = cases.iter().map(commands).fold(f64::NEG_INFINITY, f64::max);
    let what = format!("commands from {first} to {last}, the most of the least");
    report.target(what, AtMost(1.1), most / least);
}

/// Returns a duration in which a contender that serves in turn gives most tasks the name once or
/// twice. It also suffices for contenders without an order.
fn long_enough(plan: &Plan, waiters: usize, hold: Duration) -> Duration {
    let handoff = Duration::from_micros(150) + plan.latency * 5 / 2;
    let turns = u32::try_from(waiters * 3).unwrap_or(u32::MAX);
    plan.effort.time.max((hold + handoff) * turns / 2)
}

fn label(waiters: usize) -> String {
    format!("{} waiters", grouped(&waiters.to_string()))
}

const NOTE: &str = "p50 and p99 are of a hand-off, from the call of a release to the return of the next acquisition. `floor` is PUBLISH → message → EVALSHA through the \
    same client crate, from one who has just had its own script answered to one who is subscribed and waits; it takes turns with the others, and ratios are to it, round by round. Commands are those of the middle of each round, when all wait and nobody goes yet.";

/// The measures that characterise a hand-off.
const PLOTTED: &[&str] = &["p50 µs", "p99 µs", "commands"];

const SIZES: [usize; 4] = [2, 16, 128, 1_000];

/// The durations of the holds. With a duration of zero, the next task of the process never learns
/// that the name is taken. With a longer one, all tasks wait for a message.
const HOLDS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_micros(200),
    Duration::from_millis(2),
];

pub(super) async fn between(report: &mut Report, plan: &Plan, rig: &Rig) -> Outcome {
    for processes in PROCESS_SIZES {
        let mut fleets = contenders(plan, rig, names(), processes).await?;
        for &hold in &HOLDS[..2] {
            let mut case = case(plan, fleet_label(processes), TASKS, hold);
            case.job.time = nanos(plan.effort.time.max(Duration::from_secs(1)));
            report.compare(&mut fleets, &case).await?;
        }
    }
    for &hold in &HOLDS[..2] {
        let cases = PROCESS_SIZES.map(|processes| held(&fleet_label(processes), hold));
        for case in &cases {
            targets(report, case);
        }
        flat(report, &cases);
        let floors = cases.map(|case| report.ratio(&case, "redlatch", FLOOR, "p50 µs"));
        let what = held("p50 of the floor's, 16 processes to 4", hold);
        report.target(what, AtMost(1.1), floors[1] / floors[0]);
    }
    report.note(NOTE);
    report.note(RING);
    report.plotted = PLOTTED;
    Ok(())
}

fn fleet_label(processes: usize) -> String {
    format!("{processes} processes × {TASKS}")
}

const RING: &str = "The floor goes from process to process, as many as the case has, of which all but one are subscribed and idle.";

const PROCESS_SIZES: [usize; 2] = [4, 16];

/// The number of waiters in each process.
const TASKS: usize = 4;
