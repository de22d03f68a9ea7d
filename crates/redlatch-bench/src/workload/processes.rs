//! W4: all tasks want the same name, from several processes.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{Reported, handoff, own_worker, wanted, wants};
use crate::{
    cli::Plan,
    contender::{Contender, External, FLOOR, FLOOR_VERBS, Failure, KINDS, RAW, laps},
    job::{Done, Job, Names},
    report::{Bound, Report},
    rig::Rig,
    rounds::{Case, interleaved},
};

/// The processes of one contender, which run their rounds together.
struct Fleet {
    name: String,
    members: Vec<External>,
}

impl Fleet {
    async fn start(
        name: &str,
        words: &[String],
        processes: usize,
        url: &str,
    ) -> Result<Self, Failure> {
        let starts = (0..processes).map(|_| External::start(name, words, url));
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
        if self.name == FLOOR {
            return FLOOR_VERBS.map(str::to_owned).to_vec();
        }
        self.members
            .first()
            .map(External::verbs)
            .unwrap_or_default()
    }

    async fn run(&mut self, job: &Job) -> Result<Done, Failure> {
        let each = if self.name == FLOOR {
            // Each process has one station of the ring.
            let laps = laps(job, u32::try_from(self.members.len())?)?;
            let members = self.members.iter_mut().zip(&laps);
            try_join_all(members.map(|(member, lap)| member.lap(lap))).await?
        } else {
            try_join_all(self.members.iter_mut().map(|member| member.run(job))).await?
        };
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

pub(super) async fn between(mut report: Report, plan: &Plan, rig: &Rig) -> Reported {
    let mut programs = vec![(FLOOR.to_owned(), own_worker(RAW)?)];
    for name in wanted(plan).into_iter().filter(|&name| name != RAW) {
        programs.push((name.to_owned(), own_worker(name)?));
    }
    for kind in KINDS.into_iter().filter(|kind| wants(plan, kind)) {
        programs.push((kind.to_owned(), own_worker(kind)?));
    }
    programs.extend(plan.with.iter().cloned());
    for processes in SIZES {
        let mut fleets: Vec<Box<dyn Contender>> = Vec::new();
        for (name, words) in &programs {
            let fleet = Fleet::start(name, words, processes, &rig.url()).await?;
            fleets.push(Box::new(fleet));
        }
        for hold in HOLDS {
            let case = Case::timed(
                label(processes, hold),
                Names::One { hold },
                TASKS,
                plan.effort.time.max(Duration::from_secs(1)),
            );
            let rounds = handoff::rounds(plan, hold);
            let series = interleaved(rig, &mut fleets, &case, rounds).await?;
            report.series.extend(series);
        }
    }
    for hold in HOLDS {
        let cases = SIZES.map(|processes| label(processes, hold));
        for case in &cases {
            handoff::targets(&mut report, case);
        }
        handoff::flat(&mut report, &cases);
        let floors = cases.map(|case| report.ratio(&case, "redlatch", FLOOR, "p50 µs"));
        report.target(
            handoff::held("p50 of the floor's, 16 processes to 4", hold),
            Bound::AtMost(1.1),
            floors[1] / floors[0],
        );
    }
    report.notes.push(handoff::NOTE.to_owned());
    report.notes.push(NOTE.to_owned());
    report.plotted = handoff::PLOTTED;
    Ok(report)
}

fn label(processes: usize, hold: Duration) -> String {
    handoff::held(&format!("{processes} processes × {TASKS}"), hold)
}

const NOTE: &str = "The floor goes from process to process, as many as the case has, of which all but one are subscribed and idle.";

const SIZES: [usize; 2] = [4, 16];

const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_micros(200)];

/// The number of waiters in each process.
const TASKS: usize = 4;
