//! W9: the workloads on three masters, beside one server in the same run.

use std::time::Duration;

use redlatch_tests::server::ServerBinary;

use super::{
    Reported,
    holds::{self, Kept},
    owns,
    pairs::label,
};
use crate::{
    cli::Plan,
    contender::RAW,
    job::Names,
    report::{Report, Series},
    rig::Rig,
    rounds::{Case, interleaved},
};

pub(super) async fn spread(mut report: Report, plan: &Plan, binary: &ServerBinary) -> Reported {
    let rigs = [
        (Rig::one(binary, Duration::ZERO)?, "one server"),
        (Rig::cluster(binary), "three masters"),
    ];
    let mut clients = Vec::new();
    for (rig, _) in &rigs {
        clients.push(owns([RAW, "redlatch"], rig).await?);
    }
    for tasks in [64, 512] {
        let mut series: [Vec<Series>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..plan.effort.rounds {
            for (at, (rig, name)) in rigs.iter().enumerate() {
                let label = format!("{}, {name}", label(tasks));
                let case = Case {
                    rounds: 1,
                    ..plan.case(label, Names::Own, tasks)
                };
                let round = interleaved(rig, &mut clients[at], &case).await?;
                append(&mut series[at], round);
            }
        }
        report.series.extend(series.into_iter().flatten());
    }
    for (rig, name) in &rigs {
        let mut series = holds::measure(rig, Kept::of(10_000), plan).await?;
        series.case = format!("{}, {name}", series.case);
        report.series.push(series);
    }
    report.note(NOTE);
    Ok(report)
}

/// Appends the samples of a round to the earlier ones.
fn append(all: &mut Vec<Series>, round: Vec<Series>) {
    if all.is_empty() {
        *all = round;
    } else {
        for (series, one) in all.iter_mut().zip(round) {
            series.samples.extend(one.samples);
        }
    }
}

const NOTE: &str = "Three masters on one machine share its cores with each other and with the client; what grows is what they cost together. \
    There, `raw` is the same pair of scripts through the cluster client of the same crate.";
