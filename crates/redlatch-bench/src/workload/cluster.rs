//! W9: the same over three masters, beside one server in the same run.

use redlatch_tests::server::ServerBinary;

use super::{holds, pairs::label};
use crate::{
    cli::Plan,
    contender::{Contender, Failure, InProcess},
    job::{Names, Until},
    report::{Report, Series},
    rig::Rig,
    rounds::{Case, interleaved},
};

pub(super) async fn spread(
    mut report: Report,
    plan: &Plan,
    binary: &ServerBinary,
) -> Result<Report, Failure> {
    let rigs = [
        (Rig::one(binary), "one server"),
        (Rig::cluster(binary), "three masters"),
    ];
    let mut clients: Vec<Vec<Box<dyn Contender>>> = Vec::new();
    for (rig, _) in &rigs {
        clients.push(vec![Box::new(
            InProcess::connect("redlatch", &rig.url()).await?,
        )]);
    }
    for tasks in [64, 512] {
        let case = Case {
            label: label(tasks),
            names: Names::Own,
            tasks,
            until: Until::Time(plan.effort.time),
        };
        let mut both = rigs
            .each_ref()
            .map(|(_, name)| Series::new(&case.label, name));
        for _ in 0..plan.effort.rounds {
            for (at, (rig, _)) in rigs.iter().enumerate() {
                let series = interleaved(rig, &mut clients[at], &case, 1).await?;
                both[at]
                    .samples
                    .extend(series.into_iter().flat_map(|one| one.samples));
            }
        }
        report.series.extend(both);
    }
    for (rig, name) in &rigs {
        let rounds = plan.effort.rounds.min(2);
        let mut series = holds::measure(rig, 10_000, holds::time(plan), rounds).await?;
        (*name).clone_into(&mut series.contender);
        report.series.push(series);
    }
    report.notes.push("Three masters on one machine share its cores with each other and with the client; what grows is what they cost together.".to_owned());
    Ok(report)
}
