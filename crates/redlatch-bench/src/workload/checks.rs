//! W14: checks of a rate.

use std::time::Duration;

use super::{owns, pairs::label};
use crate::{
    cli::Plan,
    contender::{External, Failure, GCRA, LIMIT},
    job::{Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

/// Measures checks that pass, with a key per task and with one key for all, beside the bare script.
pub(super) async fn of_a_rate(
    mut report: Report,
    plan: &Plan,
    rig: &Rig,
) -> Result<Report, Failure> {
    let mut contenders = owns([GCRA, LIMIT], rig).await?;
    for (name, words) in &plan.with {
        contenders.push(Box::new(External::start(name, words, &rig.url()).await?));
    }
    let hold = Duration::ZERO;
    for (tasks, names, key) in [
        (1, Names::Own, ""),
        (64, Names::Own, ""),
        (512, Names::Own, ""),
        (64, Names::Pool { hold }, ", one key"),
    ] {
        let case = Case {
            label: format!("{}{key}", label(tasks)),
            names,
            tasks,
            until: Until::Time(plan.effort.time),
        };
        // Programs in other languages know no key for all.
        let some = if key.is_empty() { contenders.len() } else { 2 };
        let some = &mut contenders[..some];
        let series = interleaved(rig, some, &case, plan.effort.rounds).await?;
        report.series.extend(series);
        if tasks == 64 {
            report.target(
                format!("{}: checks/s, of the bare script's", case.label),
                Bound::AtLeast(0.9),
                report.ratio(&case.label, LIMIT, GCRA, "pairs/s"),
            );
        }
    }
    report
        .notes
        .push("A pair is one check, which passes.".to_owned());
    Ok(report)
}
