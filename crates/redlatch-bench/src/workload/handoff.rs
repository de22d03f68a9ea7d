//! W3 and W4: all tasks want the same name, in one process, or in several.

use std::time::Duration;

use super::{Reported, contenders, own_worker, owns, wanted, wants};
use crate::{
    cli::Plan,
    contender::{Contender, FLOOR, KINDS, RAW},
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::Case,
    stats::{grouped, span},
};

pub(super) async fn in_one_process(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut all = vec![Contender::floor(&rig.url()).await?];
    // The raw pair has no waiters. The floor is for hand-offs what the raw pair is for pairs.
    let mut others = contenders(plan, rig).await?;
    others.retain(|contender| contender.name != RAW);
    all.append(&mut others);
    let kinds = KINDS.into_iter().filter(|kind| wants(plan, kind));
    all.append(&mut owns(kinds, rig).await?);
    let holds = if plan.latency.is_zero() {
        &HOLDS[..]
    } else {
        &HOLDS[..2]
    };
    for &hold in holds {
        for waiters in SIZES {
            let case = Case {
                until: Until::Time(long_enough(plan, waiters, hold)),
                rounds: rounds(plan, hold),
                ..plan.case(label(waiters, hold), Names::One { hold }, waiters)
            };
            report.compare(rig, &mut all, &case).await?;
        }
    }
    for &hold in holds {
        for waiters in SIZES {
            targets(&mut report, &label(waiters, hold));
        }
        flat(&mut report, &SIZES.map(|waiters| label(waiters, hold)));
    }
    report.note(NOTE);
    report.plotted = PLOTTED;
    Ok(report)
}

/// Adds the project's targets for a hand-off.
fn targets(report: &mut Report, case: &str) {
    let ratio = report.ratio(case, "redlatch", FLOOR, "p50 µs");
    let found = [
        ("p50, of the floor's", Bound::AtMost(1.3), ratio),
        // The limit is three commands, plus commands that were on the way when counting began and
        // ended.
        ("commands", Bound::AtMost(3.05), commands(report, case)),
    ];
    report.targets(case, found);
}

/// Compares the commands of cases that differ only in the number of waiters.
fn flat(report: &mut Report, cases: &[String]) {
    let (Some(first), Some(last)) = (cases.first(), cases.last()) else {
        return;
    };
    let found = || cases.iter().map(|case| commands(report, case));
    let least = found().fold(f64::INFINITY, f64::min);
    let most = found().fold(f64::NEG_INFINITY, f64::max);
    let what = format!("commands from {first} to {last}, the most of the least");
    report.target(what, Bound::AtMost(1.1), most / least);
}

/// Returns the number of rounds. Holds with a duration make rounds long, so there are fewer.
fn rounds(plan: &Plan, hold: Duration) -> usize {
    if hold.is_zero() && plan.latency.is_zero() {
        plan.effort.rounds
    } else {
        plan.effort.few
    }
}

fn commands(report: &Report, case: &str) -> f64 {
    report.median(case, "redlatch", "commands")
}

/// Returns a duration in which a contender that serves in turn gives most tasks the name once or
/// twice. It also suffices for contenders without an order.
fn long_enough(plan: &Plan, waiters: usize, hold: Duration) -> Duration {
    let handoff = Duration::from_micros(150) + plan.latency * 5 / 2;
    let turns = u32::try_from(waiters * 3).unwrap_or(u32::MAX);
    plan.effort.time.max((hold + handoff) * turns / 2)
}

fn label(waiters: usize, hold: Duration) -> String {
    held(&format!("{} waiters", grouped(&waiters.to_string())), hold)
}

/// Adds the duration of the holds to the name of a case, if they have one.
pub(super) fn held(case: &str, hold: Duration) -> String {
    if hold.is_zero() {
        case.to_owned()
    } else {
        format!("{case}, held {}", span(hold))
    }
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

pub(super) async fn between(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut programs = vec![(FLOOR.to_owned(), own_worker(RAW)?)];
    let kinds = KINDS.into_iter().filter(|kind| wants(plan, kind));
    let own = wanted(plan).into_iter().filter(|&name| name != RAW);
    for name in own.chain(kinds) {
        programs.push((name.to_owned(), own_worker(name)?));
    }
    programs.extend(plan.with.iter().cloned());
    for processes in PROCESS_SIZES {
        let mut fleets = Vec::new();
        for (name, words) in &programs {
            fleets.push(Contender::start(name, words, processes, &rig.url()).await?);
        }
        for hold in PROCESS_HOLDS {
            let case = Case {
                until: Until::Time(plan.effort.time.max(Duration::from_secs(1))),
                rounds: rounds(plan, hold),
                ..plan.case(fleet_label(processes, hold), Names::One { hold }, TASKS)
            };
            report.compare(rig, &mut fleets, &case).await?;
        }
    }
    for hold in PROCESS_HOLDS {
        let cases = PROCESS_SIZES.map(|processes| fleet_label(processes, hold));
        for case in &cases {
            targets(&mut report, case);
        }
        flat(&mut report, &cases);
        let floors = cases.map(|case| report.ratio(&case, "redlatch", FLOOR, "p50 µs"));
        let what = held("p50 of the floor's, 16 processes to 4", hold);
        report.target(what, Bound::AtMost(1.1), floors[1] / floors[0]);
    }
    report.note(NOTE);
    report.note(RING);
    report.plotted = PLOTTED;
    Ok(report)
}

fn fleet_label(processes: usize, hold: Duration) -> String {
    held(&format!("{processes} processes × {TASKS}"), hold)
}

const RING: &str = "The floor goes from process to process, as many as the case has, of which all but one are subscribed and idle.";

const PROCESS_SIZES: [usize; 2] = [4, 16];

const PROCESS_HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_micros(200)];

/// The number of waiters in each process.
const TASKS: usize = 4;
