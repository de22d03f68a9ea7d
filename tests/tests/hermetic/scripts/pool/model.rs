//! What a pool is, written down once more: exact, with nothing put off.

use std::collections::BTreeMap;

use crate::scripts::spent::Spent;

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) until: u64,
    pub(super) permits: u64,
    pub(super) forgotten: u64,
    /// Whether a release has granted it and its holder has confirmed nothing.
    pub(super) unheard: bool,
}

/// A waiter of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) member: String,
    pub(super) need: u64,
    /// Until when it counts as alive.
    pub(super) alive: u64,
}

impl Waiter {
    /// Returns the order with which a release may grant it.
    pub(super) fn order(&self) -> Option<&str> {
        self.member.split(' ').nth(4)
    }

    pub(super) fn client(&self) -> &str {
        self.member.split(' ').nth(1).unwrap()
    }

    pub(super) fn number(&self) -> &str {
        self.member.split(' ').nth(2).unwrap()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) size: Option<u64>,
    pub(super) holds: BTreeMap<String, Hold>,
    /// Attempts that must not act any more.
    pub(super) spent: Spent,
    /// What every operation was told when it ran first.
    pub(super) told: BTreeMap<String, Vec<String>>,
}

/// What a try to acquire finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Void,
    Copy,
    Unset,
    Large(u64),
    Busy,
    Free,
}

impl Pool {
    pub(super) fn out(&self, now: u64) -> u64 {
        let live = self.holds.values().filter(|hold| hold.until > now);
        live.map(|hold| hold.permits).sum()
    }

    pub(super) fn available(&self, now: u64) -> u64 {
        self.size.unwrap_or(0).saturating_sub(self.out(now))
    }

    pub(super) fn is_live(&self, hold: &str, now: u64) -> bool {
        self.holds.get(hold).is_some_and(|hold| hold.until > now)
    }

    /// `queue`: who waits, in order; `member`: who asks.
    pub(super) fn find(
        &self,
        now: u64,
        attempt: &str,
        need: u64,
        queue: &[Waiter],
        member: Option<&str>,
    ) -> Found {
        if self.is_live(attempt, now) {
            return Found::Copy;
        }
        let placed = queue
            .iter()
            .any(|waiter| Some(waiter.member.as_str()) == member);
        if self.spent.refuses(attempt, now) && !placed {
            return Found::Void;
        }
        let Some(size) = self.size else {
            return Found::Unset;
        };
        if need > size {
            return Found::Large(size);
        }
        // The dead in front of all living are removed, whoever they are.
        let head = queue.iter().position(|waiter| waiter.alive > now);
        let queue = &queue[head.unwrap_or(queue.len())..];
        let before = queue
            .iter()
            .take_while(|waiter| Some(waiter.member.as_str()) != member);
        let before = before.filter(|waiter| waiter.alive > now && waiter.need <= size);
        let reserved: u64 = before.map(|waiter| waiter.need).sum();
        if self.available(now) >= reserved + need {
            Found::Free
        } else {
            Found::Busy
        }
    }

    pub(super) fn grant(&mut self, attempt: &str, permits: u64, until: u64) {
        let hold = Hold {
            until,
            permits,
            forgotten: 0,
            unheard: false,
        };
        self.holds.insert(attempt.to_owned(), hold);
    }

    /// The holder renews its hold to `until`, or asks for it again.
    pub(super) fn renew(&mut self, attempt: &str, until: u64) {
        let hold = self.holds.get_mut(attempt).unwrap();
        if hold.until < until {
            hold.until = until;
            hold.unheard = false;
        }
    }

    /// Returns the verdicts that are right, and what is left.
    pub(super) fn release(
        &mut self,
        now: u64,
        hold: &str,
        left: u64,
        forgotten: u64,
    ) -> (&'static [&'static str], u64) {
        let Some(known) = self.holds.get_mut(hold) else {
            return (&["gone"], 0);
        };
        if known.until <= now {
            self.holds.remove(hold);
            return (&["expired", "gone"], 0);
        }
        let verdict: &[&str] = if known.permits > left {
            &["released"]
        } else {
            &["already"]
        };
        let more = forgotten.saturating_sub(known.forgotten);
        known.unheard &= known.permits <= left && more == 0;
        known.permits = known.permits.min(left);
        known.forgotten += more;
        self.size = self.size.map(|size| size.saturating_sub(more));
        let left = known.permits;
        if left == 0 {
            self.holds.remove(hold);
        }
        (verdict, left)
    }

    pub(super) fn change(&mut self, now: u64, op: &str, verb: &str, number: i64) -> Vec<String> {
        if let Some(told) = self.told.get(op) {
            return told.clone();
        }
        let answer = self.changed(now, verb, number);
        self.told.insert(op.to_owned(), answer.clone());
        answer
    }

    fn changed(&mut self, now: u64, verb: &str, number: i64) -> Vec<String> {
        let text = |verdict: &str, number: u64| vec![verdict.to_owned(), number.to_string()];
        match (verb, self.size) {
            ("try", Some(size)) => text("set", size),
            ("set" | "try", _) => {
                let size = u64::try_from(number).unwrap();
                self.size = Some(size);
                text("done", size)
            }
            (_, None) => text("unset", 0),
            ("add", Some(size)) => match size.checked_add_signed(number) {
                None => text("below", size),
                Some(more) if more > u64::from(u32::MAX) => text("above", size),
                Some(size) => {
                    self.size = Some(size);
                    text("done", size)
                }
            },
            ("drain", Some(size)) => {
                let drained = self.available(now);
                self.size = Some(size - drained);
                text("done", drained)
            }
            _ => unreachable!("{verb}"),
        }
    }
}
