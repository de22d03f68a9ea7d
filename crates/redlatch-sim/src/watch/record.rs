//! The record of a run: the story, the sums, the broken promises.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::history::History;
use crate::{faults::Fault, scenarios::Scenario};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise: `P1`, …
    pub promise: &'static str,
    /// The description.
    pub what: String,
}

/// A broken promise and its description.
pub type Broken = Option<(&'static str, String)>;

/// The sums of a run, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of runs.
    pub seeds: u64,
    /// The number of runs with broken promises.
    pub broken: u64,
    /// The number of runs in which two holders were seen where they are expected.
    pub two_holders: u64,
    /// Virtual time in µs.
    pub lasted: u64,
    /// The longest convergence of any run, in µs: the time from the end of all faults until every
    /// worker had acquired every name.
    pub converged: u64,
    /// The number of delivered guards.
    pub grants: u64,
    /// The number of injected faults, per class.
    pub faults: BTreeMap<Fault, u64>,
    /// The number of writes that the token stopped.
    pub stopped: u64,
    /// The number of losses that holders were told.
    pub losses: u64,
    /// The number of calls with several entries.
    pub lists: u64,
    /// The number of their entries.
    pub entries: u64,
    /// The largest number of entries in one.
    pub largest: u64,
}

impl Tally {
    /// Adds the sums of other runs.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.broken += other.broken;
        self.two_holders += other.two_holders;
        self.lasted += other.lasted;
        self.converged = self.converged.max(other.converged);
        self.grants += other.grants;
        self.stopped += other.stopped;
        self.losses += other.losses;
        self.lists += other.lists;
        self.entries += other.entries;
        self.largest = self.largest.max(other.largest);
        for (&fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }

    /// Returns the totals for the page of evidence.
    pub fn totals(&self) -> Value {
        json!({
            "seeds": self.seeds,
            "micros": self.lasted,
            "faults": self.faults.values().sum::<u64>(),
            "grants": self.grants,
            "broken": self.broken,
        })
    }
}

/// The record of one run.
#[derive(Debug, Default)]
pub struct Record {
    /// The true time in µs.
    pub now: u64,
    /// The story: a log line per event, recorded only on request.
    pub story: Vec<String>,
    pub(super) told: bool,
    /// Identities, and the names that replace them in the story.
    pub(super) identities: Vec<(String, String)>,
    /// The sums.
    pub tally: Tally,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// The records for the judge, if it knows this world and a file is given.
    pub history: Option<History>,
    /// Whether two holders do not count as a violation.
    pub(super) expects_trouble: bool,
    pub(super) scenario: Option<&'static Scenario>,
}

impl Record {
    /// Replaces an identity by a name in all later lines of the story.
    pub fn call_by(&mut self, id: &str, name: &str) {
        self.identities.push((id.to_owned(), name.to_owned()));
    }

    /// Adds a line to the story, if it is recorded.
    pub fn say(&mut self, text: impl FnOnce() -> String) {
        if !self.told {
            return;
        }
        let (seconds, micros) = (self.now / 1_000_000, self.now % 1_000_000);
        let mut line = format!("{seconds:>4}.{micros:06}  {}", text());
        for (id, name) in &self.identities {
            line = line.replace(id, name);
        }
        self.story.push(line);
    }

    /// Records a broken promise, if there is one.
    pub fn judge(&mut self, broken: Broken) {
        if let Some((promise, what)) = broken {
            self.violate(promise, what);
        }
    }

    /// Records a broken promise.
    pub fn violate(&mut self, promise: &'static str, what: String) {
        if self.expects_trouble && promise == "P1" {
            self.tally.two_holders = 1;
            return self.say(|| format!("!!! two holders, as expected: {what}"));
        }
        let (asked, excused) = self.scenario.map_or((false, false), |scenario| {
            let among = |promises: &[&str]| promises.contains(&promise);
            (among(scenario.asked), among(scenario.excused))
        });
        let kept = matches!(promise, "P2" | "P3" | "P4" | "P11") || asked;
        if excused || self.expects_trouble && !kept {
            return;
        }
        self.say(|| format!("!!! {promise} is broken: {what}"));
        if self.violations.len() < 20 {
            self.violations.push(Violation { promise, what });
        }
    }
}
