//! What one latch is, written down once more, with a memory of every operation that ever ran.

use std::collections::BTreeMap;

use super::bed::{optional, text};

/// How many generations that opened are remembered, besides the present one.
pub(super) const RECORD: usize = 64;

/// What an operation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Set,
    /// It counted in this generation.
    Counted(u64),
    Deleted,
    Refused,
}

#[derive(Clone, Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) initial: u32,
    pub(super) left: u32,
    /// It was removed before it opened.
    pub(super) cut_off: bool,
}

/// A verdict, and the message that goes out.
type Outcome = (Vec<String>, Option<String>);

/// One name, as long as the server remembers it.
#[derive(Clone, Debug, Default)]
pub(super) struct Latch {
    pub(super) generations: Vec<Generation>,
    /// The numbers of all that there ever were, with those that the server has forgotten.
    pub(super) numbers: Vec<u64>,
    deleted: bool,
    /// When anything last ran, in µs.
    stamp: u64,
    /// When the server forgets all this, in ms.
    pub(super) ends: Option<u64>,
    /// The same for the trace of a deleted one and for one with a TTL.
    pub(super) operations: BTreeMap<String, Ran>,
}

impl Latch {
    pub(super) fn present(&self) -> Option<&Generation> {
        self.generations.last().filter(|_| !self.deleted)
    }

    /// Returns the verdict.
    pub(super) fn set(
        &mut self,
        op: &str,
        micros: u64,
        count: u32,
        ttl: Option<u64>,
    ) -> Vec<String> {
        if self.present().is_some_and(|present| present.left > 0) {
            self.operations.insert(op.to_owned(), Ran::Refused);
            return text(&["refused", ""]);
        }
        let number = micros.max(self.stamp + 1);
        self.stamp = number;
        self.deleted = false;
        self.ends = ttl.map(|ttl| micros / 1_000 + ttl);
        self.generations.push(Generation {
            number,
            initial: count,
            left: count,
            cut_off: false,
        });
        self.numbers.push(number);
        self.operations.insert(op.to_owned(), Ran::Set);
        text(&["set", &number.to_string()])
    }

    /// The message is that this opens it.
    pub(super) fn count_down(&mut self, op: &str, micros: u64, n: u32) -> Outcome {
        let Some(present) = self.generations.last_mut().filter(|_| !self.deleted) else {
            self.operations.insert(op.to_owned(), Ran::Refused);
            return (text(&["unset"]), None);
        };
        self.stamp = self.stamp.max(micros);
        let (was_shut, number) = (present.left > 0, present.number);
        present.left = present.left.saturating_sub(n);
        let opens = was_shut && present.left == 0;
        let verdict = text(&["counted", &present.left.to_string(), &number.to_string()]);
        self.operations.insert(op.to_owned(), Ran::Counted(number));
        (verdict, opens.then(|| format!("open {number}")))
    }

    /// The message is that this cuts the present generation off.
    pub(super) fn delete(&mut self, op: &str, micros: u64, trace: u64) -> Outcome {
        let Some(last) = self.generations.last_mut().filter(|_| !self.deleted) else {
            self.operations.insert(op.to_owned(), Ran::Refused);
            return (text(&["unset"]), None);
        };
        last.cut_off = last.left > 0;
        let message = last.cut_off.then(|| format!("deleted {}", last.number));
        self.operations.insert(op.to_owned(), Ran::Deleted);
        self.stamp = self.stamp.max(micros);
        self.deleted = true;
        self.ends = Some(micros / 1_000 + trace);
        (text(&["deleted"]), message)
    }

    /// What a copy of a count-down is told that counted in this generation.
    pub(super) fn counted_again(&self, number: u64) -> Vec<String> {
        match self.generations.iter().find(|it| it.number == number) {
            Some(it)
                if self
                    .present()
                    .is_some_and(|present| present.number == number) =>
            {
                text(&["counted", &it.left.to_string(), &number.to_string()])
            }
            Some(it) if self.is_on_record(it) => text(&["counted", "0", ""]),
            // The server has forgotten the generation, or it was deleted.
            Some(_) | None => text(&["deleted"]),
        }
    }

    /// What a look tells of the present generation.
    pub(super) fn look(&self, now: u64) -> Vec<String> {
        let Some(present) = self.present() else {
            return text(&["unset", "", "0", "0", ""]);
        };
        text(&[
            "set",
            &present.number.to_string(),
            &present.left.to_string(),
            &present.initial.to_string(),
            &optional(self.ends.map(|ends| ends.saturating_sub(now))),
        ])
    }

    /// What a look tells of a generation.
    pub(super) fn fate(&self, number: u64) -> &'static str {
        let found = self.generations.iter().find(|it| it.number == number);
        match found {
            Some(it) if it.cut_off => "deleted",
            Some(it) if it.left > 0 => "shut",
            Some(it) if self.is_on_record(it) => "open",
            // The server cannot know what became of what it has forgotten.
            Some(_) | None => "deleted",
        }
    }

    /// Tells whether the server remembers that `generation` opened.
    fn is_on_record(&self, generation: &Generation) -> bool {
        let present = self.present().map(|present| present.number);
        let earlier = self.generations.iter().rev();
        let mut opened = earlier.filter(|it| it.left == 0 && Some(it.number) != present);
        Some(generation.number) == present && generation.left == 0
            || opened
                .by_ref()
                .take(RECORD)
                .any(|it| it.number == generation.number)
    }

    /// The key is gone; operations are remembered elsewhere.
    pub(super) fn forget(&mut self) {
        *self = Self {
            numbers: std::mem::take(&mut self.numbers),
            operations: std::mem::take(&mut self.operations),
            ..Self::default()
        };
    }
}
