//! What one latch is, written down once more, with a memory of every operation that ever ran.

use std::collections::BTreeMap;

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

/// One name, as long as the server remembers it.
#[derive(Clone, Debug, Default)]
pub(super) struct Latch {
    pub(super) generations: Vec<Generation>,
    pub(super) deleted: bool,
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

    pub(super) fn is_shut(&self) -> bool {
        self.present().is_some_and(|present| present.left > 0)
    }

    pub(super) fn set(
        &mut self,
        op: &str,
        micros: u64,
        count: u32,
        ttl: Option<u64>,
    ) -> Option<u64> {
        if self.is_shut() {
            self.operations.insert(op.to_owned(), Ran::Refused);
            return None;
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
        self.operations.insert(op.to_owned(), Ran::Set);
        Some(number)
    }

    /// Returns whether this opens it.
    pub(super) fn count_down(&mut self, op: &str, micros: u64, n: u32) -> bool {
        if self.present().is_none() {
            self.operations.insert(op.to_owned(), Ran::Refused);
            return false;
        }
        self.stamp = self.stamp.max(micros);
        let Some(present) = self.generations.last_mut() else {
            return false;
        };
        let was_shut = present.left > 0;
        present.left = present.left.saturating_sub(n);
        let ran = Ran::Counted(present.number);
        let opens = was_shut && present.left == 0;
        self.operations.insert(op.to_owned(), ran);
        opens
    }

    /// Returns whether this cuts the present generation off.
    pub(super) fn delete(&mut self, op: &str, micros: u64, trace: u64) -> bool {
        if self.present().is_none() {
            self.operations.insert(op.to_owned(), Ran::Refused);
            return false;
        }
        self.operations.insert(op.to_owned(), Ran::Deleted);
        self.stamp = self.stamp.max(micros);
        self.deleted = true;
        self.ends = Some(micros / 1_000 + trace);
        let Some(last) = self.generations.last_mut() else {
            return false;
        };
        last.cut_off = last.left > 0;
        last.cut_off
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
    pub(super) fn is_on_record(&self, generation: &Generation) -> bool {
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
            operations: std::mem::take(&mut self.operations),
            ..Self::default()
        };
    }
}
