//! W4: all tasks want the same name, from several processes.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{Reported, handoff, own_worker, wanted, wants};
use crate::{
    cli::Plan,
    contender::{Contender, External, FLOOR, FLOOR_VERBS, Failure, KINDS, RAW, laps},
    job::{Done, Job, Names, Until},
    report::{Bound, Report},
    rig::Rig,
    rounds::Case,
};

/// The processes of one contender, which run their rounds together.
struct Fleet {
    name: String,
    members: Vec<External>,
}

impl Fleet {
    async fn start(name: &str, words: &[String], size: usize, url: &str) -> Result<Self, Failure> {
        let starts = (0..size).map(|_| External::start(name, words, url));
        let (name, members) = (name.to_owned(), try_join_all(starts).await?);
        Ok(Self { name, members })
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
        self.members[0].verbs()
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
    let kinds = KINDS.into_iter().filter(|kind| wants(plan, kind));
    let own = wanted(plan).into_iter().filter(|&name| name != RAW);
    for name in own.chain(kinds) {
        programs.push((name.to_owned(), own_worker(name)?));
    }
    programs.extend(plan.with.iter().cloned());
    for processes in SIZES {
        let mut fleets: Vec<Box<dyn Contender>> = Vec::new();
        for (name, words) in &programs {
            let fleet = Fleet::start(name, words, processes, &rig.url()).await?;
            fleets.push(Box::new(fleet));
        }
        for hold in HOLDS {
            let case = Case {
                until: Until::Time(plan.effort.time.max(Duration::from_secs(1))),
                ..plan.case(label(processes, hold), Names::One { hold }, TASKS)
            };
            let rounds = handoff::rounds(plan, hold);
            report.compare(rig, &mut fleets, &case, rounds).await?;
        }
    }
    for hold in HOLDS {
        let cases = SIZES.map(|processes| label(processes, hold));
        for case in &cases {
            handoff::targets(&mut report, case);
        }
        handoff::flat(&mut report, &cases);
        let floors = cases.map(|case| report.ratio(&case, "redlatch", FLOOR, "p50 µs"));
        let what = handoff::held("p50 of the floor's, 16 processes to 4", hold);
        report.target(what, Bound::AtMost(1.1), floors[1] / floors[0]);
    }
    report.note(handoff::NOTE);
    report.note(NOTE);
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
