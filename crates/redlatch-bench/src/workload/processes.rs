//! W4: everybody wants the same name, from several processes.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{limit, own_worker, wanted};
use crate::{
    cli::Plan,
    contender::{Contender, External, Failure, REFERENCE},
    job::{Done, Job, Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

/// Several processes of one contender, which do their rounds together.
struct Fleet {
    name: String,
    members: Vec<External>,
}

impl Fleet {
    async fn start(name: &str, processes: usize, url: &str) -> Result<Self, Failure> {
        let words = own_worker(name)?;
        let starts = (0..processes).map(|_| External::start(name, &words, url));
        Ok(Self {
            name: name.to_owned(),
            members: try_join_all(starts).await?,
        })
    }
}

#[async_trait]
impl Contender for Fleet {
    fn name(&self) -> &str {
        &self.name
    }

    fn verbs(&self) -> Vec<String> {
        self.members
            .first()
            .map(External::verbs)
            .unwrap_or_default()
    }

    async fn run(&mut self, job: &Job) -> Result<Done, Failure> {
        let each = try_join_all(self.members.iter_mut().map(|member| member.run(job))).await?;
        let mut all = Done::default();
        for done in each {
            all.wall = all.wall.max(done.wall);
            all.tasks.extend(done.tasks);
        }
        Ok(all)
    }

    fn cpu(&self) -> Duration {
        self.members.iter().map(External::cpu).sum()
    }
}

pub(super) async fn between(mut report: Report, plan: &Plan, rig: &Rig) -> Result<Report, Failure> {
    let mut names = wanted(plan);
    names.retain(|&name| name != REFERENCE);
    for processes in SIZES {
        let mut fleets: Vec<Box<dyn Contender>> = Vec::new();
        for name in &names {
            fleets.push(Box::new(Fleet::start(name, processes, &rig.url()).await?));
        }
        let case = Case {
            label: label(processes),
            names: Names::One,
            tasks: TASKS,
            until: Until::Time(plan.effort.time.max(Duration::from_secs(1))),
        };
        let floor = limit::message_floor(rig, &case.label, plan.effort.rounds).await?;
        report.series.push(floor);
        let series = interleaved(rig, &mut fleets, &case, plan.effort.rounds).await?;
        report.series.extend(series);
    }
    for processes in SIZES {
        let case = label(processes);
        let ratio = report.ratio(&case, "redlatch", REFERENCE, "p50 µs");
        report.target(
            format!("{case}: p50, of the floor's"),
            Bound::AtMost(1.3),
            ratio,
        );
        let series = report.find(&case, "redlatch");
        let commands = series.map_or(f64::NAN, |series| series.median("commands"));
        report.target(format!("{case}: commands"), Bound::AtMost(3.0), commands);
    }
    report.notes.push(super::handoff::FLOOR.to_owned());
    report
        .notes
        .push("The time of a process's CPU is read to 10 ms.".to_owned());
    Ok(report)
}

fn label(processes: usize) -> String {
    format!("{processes} processes × {TASKS}")
}

const SIZES: [usize; 2] = [4, 16];

/// Waiters in each process.
const TASKS: usize = 4;
