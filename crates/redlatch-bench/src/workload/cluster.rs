//! W9: the workloads on three masters, beside one server in the same run.

use std::time::Duration;

use redlatch_tests::server::ServerBinary;

use super::{
    Outcome,
    holds::{FEW, renewed},
    label, owns,
};
use crate::{cli::Plan, contender::RAW, job::Names, report::Report, rig::Rig};

pub(super) async fn spread(report: &mut Report, plan: &Plan, binary: &ServerBinary) -> Outcome {
    let rigs = [
        (Rig::one(binary, Duration::ZERO)?, "one server"),
        (Rig::cluster(binary), "three masters"),
    ];
    let mut all = Vec::new();
    for (rig, place) in &rigs {
        for mut contender in owns([RAW, "redlatch"], rig, 1).await? {
            contender.place = *place;
            all.push(contender);
        }
    }
    for tasks in [64, 512] {
        let case = plan.case(label(tasks), Names::Own, tasks);
        report.compare(&mut all, &case).await?;
    }
    for (rig, place) in &rigs {
        let mut series = renewed(FEW, rig, plan).await?;
        series.case = format!("{}, {place}", series.case);
        report.series.push(series);
    }
    report.note(NOTE);
    Ok(())
}

const NOTE: &str = "Three masters on one machine share its cores with each other and with the client; what grows is what they cost together. \
    There, `raw` is the same pair of scripts through the cluster client of the same crate.";
