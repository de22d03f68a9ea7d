//! A model of one latch, which remembers its whole history.

use std::collections::BTreeMap;

/// One generation. Times are true time in µs.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    /// The number, as the server assigned it.
    pub(super) number: u64,
    pub(super) left: u32,
    pub(super) set: u64,
    pub(super) opened: Option<u64>,
    /// The time of its deletion, open or not.
    pub(super) deleted: Option<u64>,
    /// The time at which the next one was set.
    pub(super) followed: Option<u64>,
    /// Whether the server has forgotten it, which counts as deleted, even if it had opened.
    pub(super) forgotten: bool,
}

/// The result of the first run of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It acted on this generation.
    Acted(u64),
    Refused,
}

/// The latch of one name.
#[derive(Clone, Debug, Default)]
pub(super) struct Latch {
    pub(super) generations: Vec<Generation>,
    pub(super) operations: BTreeMap<String, Outcome>,
}

impl Generation {
    /// Tells whether it was the present generation at any time from `since` on.
    pub(super) fn lasted_to(&self, since: u64) -> bool {
        self.followed.is_none_or(|at| at >= since) && self.deleted.is_none_or(|at| at >= since)
    }

    /// Tells whether it was shut at any time from `since` on.
    pub(super) fn was_shut_at(&self, since: u64) -> bool {
        self.lasted_to(since) && self.opened.is_none_or(|at| at >= since)
    }

    /// Tells whether a waiter for it may be told that it was deleted.
    pub(super) const fn is_gone(&self) -> bool {
        self.was_cut_off() || self.forgotten
    }

    /// Tells whether it was removed before it opened.
    pub(super) const fn was_cut_off(&self) -> bool {
        self.deleted.is_some() && self.opened.is_none()
    }
}

impl Latch {
    /// Returns the present generation.
    pub(super) fn present(&mut self) -> Option<&mut Generation> {
        self.generations
            .last_mut()
            .filter(|generation| generation.deleted.is_none())
    }

    pub(super) fn is_shut(&mut self) -> bool {
        self.present()
            .is_some_and(|generation| generation.opened.is_none())
    }

    pub(super) fn find(&self, number: u64) -> Option<&Generation> {
        self.generations
            .iter()
            .rev()
            .find(|generation| generation.number == number)
    }

    /// Returns the number of generations later than `this` that have opened.
    pub(super) fn opened_since(&self, this: &Generation) -> usize {
        let later = self.generations.iter().rev();
        later
            .take_while(|it| it.number > this.number)
            .filter(|it| it.opened.is_some())
            .count()
    }

    /// Tells whether there was no latch at any time from `since` on.
    pub(super) fn was_absent(&self, since: u64) -> bool {
        let Some(first) = self.generations.first() else {
            return true;
        };
        let after = self
            .generations
            .iter()
            .any(|it| it.deleted.is_some() && it.followed.is_none_or(|at| at >= since));
        first.set >= since || after
    }

    pub(super) fn set(&mut self, number: u64, count: u32, now: u64) {
        if let Some(last) = self.generations.last_mut() {
            last.followed = Some(now);
        }
        self.generations.push(Generation {
            number,
            left: count,
            set: now,
            opened: (count == 0).then_some(now),
            deleted: None,
            followed: None,
            forgotten: false,
        });
    }

    /// Returns to the state of `copy`, as the server does. The earlier history stays, and restored
    /// generations begin once more.
    pub(super) fn forget(&mut self, copy: &Self, now: u64) {
        for generation in &mut self.generations {
            generation.deleted.get_or_insert(now);
            generation.forgotten = true;
        }
        let back = copy.generations.iter().filter(|it| !it.forgotten);
        self.generations.extend(back.cloned());
        self.operations.clone_from(&copy.operations);
    }

    pub(super) fn count_down(&mut self, n: u32, now: u64) {
        if let Some(generation) = self.present() {
            generation.left = generation.left.saturating_sub(n);
            if generation.left == 0 {
                generation.opened.get_or_insert(now);
            }
        }
    }

    pub(super) fn delete(&mut self, now: u64) {
        if let Some(generation) = self.present() {
            generation.deleted = Some(now);
        }
    }
}
