//! What is put on record: the story, the sums, the broken promises.

use std::collections::BTreeMap;

use crate::{faults::Fault, scenarios::Scenario, story::Story};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one: `P1`, …
    pub promise: &'static str,
    /// When, in microseconds of true time.
    pub at: u64,
    /// What happened.
    pub what: String,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Guards delivered.
    pub grants: u64,
    /// Faults injected, per class.
    pub faults: BTreeMap<Fault, u64>,
    /// Writes that the token stopped.
    pub stopped: u64,
    /// Losses told.
    pub losses: u64,
}

/// The record of one run.
#[derive(Debug)]
pub struct Record {
    /// The story.
    pub story: Story,
    /// The sums.
    pub tally: Tally,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// There were two holders where they are expected.
    pub two_holders: bool,
    expects_trouble: bool,
    scenario: Option<&'static Scenario>,
}

impl Record {
    /// Begins a record; tells the story if `told`. Where trouble is expected, two holders are not
    /// held against the library.
    pub fn new(told: bool, expects_trouble: bool, scenario: Option<&'static Scenario>) -> Self {
        Self {
            story: Story::new(told),
            tally: Tally::default(),
            violations: Vec::new(),
            two_holders: false,
            expects_trouble,
            scenario,
        }
    }

    /// A promise was broken.
    pub fn violate(&mut self, promise: &'static str, at: u64, what: String) {
        if self.expects_trouble && promise == "P1" {
            self.two_holders = true;
            self.story
                .say(at, || format!("!!! two holders, as expected: {what}"));
            return;
        }
        let asked = |scenario: &Scenario| scenario.asked.contains(&promise);
        let kept =
            matches!(promise, "P2" | "P3" | "P4" | "P11") || self.scenario.is_some_and(asked);
        if self.expects_trouble && !kept
            || self
                .scenario
                .is_some_and(|scenario| scenario.excuses(promise))
        {
            return;
        }
        self.story
            .say(at, || format!("!!! {promise} is broken: {what}"));
        if self.violations.len() < 20 {
            self.violations.push(Violation { promise, at, what });
        }
    }
}
