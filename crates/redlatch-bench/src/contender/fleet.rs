//! A contender: processes that run its rounds together.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::{External, FLOOR, Failure, floor::laps};
use crate::{
    job::{Done, Job},
    rig::Rig,
    worker::Ask,
};

/// A library or program that can run a round.
pub(crate) struct Contender<'a> {
    pub(crate) name: String,
    pub(crate) rig: &'a Rig,
    /// The servers as the names of its cases call them, if contenders have different ones.
    pub(crate) place: &'static str,
    processes: Vec<External>,
}

impl<'a> Contender<'a> {
    /// Starts `size` processes of a program with its arguments.
    pub(crate) async fn start(
        name: &str,
        words: &[String],
        size: usize,
        rig: &'a Rig,
    ) -> Result<Self, Failure> {
        let url = rig.url();
        let starts = (0..size).map(|_| External::start(name, words, &url));
        Ok(Self {
            name: name.to_owned(),
            rig,
            place: "",
            processes: try_join_all(starts).await?,
        })
    }

    /// Returns the commands that it sends itself, in lower case, separated by commas. Scripts call
    /// all other commands that the server counts.
    pub(crate) fn verbs(&self) -> &str {
        &self.processes[0].verbs
    }

    pub(crate) async fn run(&mut self, job: &Job) -> Result<Done, Failure> {
        let asks = if self.name == FLOOR {
            laps(job, self.processes.len())?
        } else {
            vec![Ask::Run(job.clone()); self.processes.len()]
        };
        let processes = self.processes.iter_mut().zip(&asks);
        let each = processes.map(|(process, ask)| process.ask::<Done>(ask));
        let mut all = Done::default();
        for done in try_join_all(each).await? {
            all.wall = all.wall.max(done.wall);
            all.tasks.extend(done.tasks);
        }
        Ok(all)
    }

    /// Returns the CPU time that it has used so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.processes.iter().map(External::cpu).sum()
    }
}
