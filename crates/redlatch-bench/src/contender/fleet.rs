//! A contender: processes that run its rounds together, or the floor in this process.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::{
    External, FLOOR, Failure,
    floor::{Station, VERBS, laps, ring},
};
use crate::{
    clock,
    job::{Done, Job},
};

/// A library or program that can run a round.
pub(crate) struct Contender {
    pub(crate) name: String,
    /// The commands that it sends itself, in lower case, separated by commas. Scripts call all
    /// other commands that the server counts.
    pub(crate) verbs: String,
    members: Members,
}

enum Members {
    Processes(Vec<External>),
    /// Stations of the floor in this process, which share a connection for commands.
    Stations(Vec<Station>),
}

impl Contender {
    /// Starts `size` processes of a program with its arguments.
    pub(crate) async fn start(
        name: &str,
        words: &[String],
        size: usize,
        url: &str,
    ) -> Result<Self, Failure> {
        let starts = (0..size).map(|_| External::start(name, words, url));
        let processes = try_join_all(starts).await?;
        let verbs = match name {
            FLOOR => VERBS.to_owned(),
            _ => processes[0].verbs.clone(),
        };
        Ok(Self {
            name: name.to_owned(),
            verbs,
            members: Members::Processes(processes),
        })
    }

    /// Connects the floor with two stations of this process.
    pub(crate) async fn floor(url: &str) -> Result<Self, Failure> {
        let stations = Station::connect(url, 2).await?;
        Ok(Self {
            name: FLOOR.to_owned(),
            verbs: VERBS.to_owned(),
            members: Members::Stations(stations),
        })
    }

    pub(crate) async fn run(&mut self, job: &Job) -> Result<Done, Failure> {
        let processes = match &mut self.members {
            Members::Processes(processes) => processes,
            Members::Stations(stations) => return ring(stations, job).await,
        };
        let each = if self.name == FLOOR {
            // Each process has one station of the ring.
            let laps = laps(job, processes.len())?;
            let members = processes.iter_mut().zip(&laps);
            try_join_all(members.map(|(member, lap)| member.lap(lap))).await?
        } else {
            try_join_all(processes.iter_mut().map(|member| member.run(job))).await?
        };
        let mut all = Done::default();
        for done in each {
            all.wall = all.wall.max(done.wall);
            all.tasks.extend(done.tasks);
        }
        Ok(all)
    }

    /// Returns the CPU time that it has used so far.
    pub(crate) fn cpu(&self) -> Duration {
        match &self.members {
            Members::Processes(processes) => processes.iter().map(External::cpu).sum(),
            Members::Stations(_) => clock::own_cpu(),
        }
    }
}
