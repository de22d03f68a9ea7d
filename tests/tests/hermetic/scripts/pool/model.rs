//! What a pool is, written down once more: exact, with nothing put off.

use crate::scripts::{prelude::*, spent::Spent};

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) until: u64,
    pub(super) permits: u64,
    pub(super) forgotten: u64,
    /// Whether a release has granted it and its holder has confirmed nothing.
    pub(super) unheard: bool,
}

/// The permits that a waiter of the queue needs.
pub(super) fn need(member: &str) -> u64 {
    member.split(' ').nth(3).unwrap().parse().unwrap()
}

/// The order with which a release may grant it.
pub(super) fn order(member: &str) -> Option<&str> {
    member.split(' ').nth(4)
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

    /// Returns the attempts of a client that hold, and may not know it.
    pub(super) fn unheard(&self, now: u64, client: &str) -> Vec<&String> {
        let live = self.holds.iter().filter(|(_, hold)| hold.until > now);
        let unheard = live.filter(|(id, hold)| hold.unheard && client_of(id) == client);
        unheard.map(|(id, _)| id).collect()
    }

    /// Returns what is told to an attempt, of which `copy` means that it holds. `member` is how it
    /// stands in the queue, or empty.
    pub(super) fn find(
        &self,
        now: u64,
        attempt: &str,
        need: u64,
        member: &str,
        queue: &Queue,
    ) -> &'static str {
        if self.is_live(attempt, now) {
            return "copy";
        }
        if self.spent.refuses(attempt, now) && !queue.has(member) {
            return "void";
        }
        let Some(size) = self.size else {
            return "unset";
        };
        if need > size {
            return "large";
        }
        // The dead in front of all living are removed, whoever they are.
        let members = queue.members.iter().map(|(member, _)| member);
        let members = members.skip_while(|other| queue.alive(other) <= now);
        let before = members.take_while(|other| *other != member);
        let living = before.filter(|other| queue.alive(other) > now);
        let needs = living.map(|other| self::need(other));
        let reserved: u64 = needs.filter(|need| *need <= size).sum();
        match self.available(now) >= reserved + need {
            true => "granted",
            false => "busy",
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

    /// The holder renews its hold to `until`, or asks for it again. Returns the verdict.
    pub(super) fn renew(&mut self, now: u64, attempt: &str, until: u64) -> &'static str {
        match self.holds.get_mut(attempt) {
            None => "gone",
            Some(hold) if hold.until <= now => "expired",
            Some(hold) => {
                if hold.until < until {
                    hold.until = until;
                    hold.unheard = false;
                }
                "renewed"
            }
        }
    }

    /// Returns the verdict, and what is left.
    pub(super) fn release(&mut self, now: u64, ask: &Ask) -> (&'static str, u64) {
        let (hold, left) = (&ask.attempt, ask.left);
        let Some(known) = self.holds.get_mut(hold) else {
            return ("gone", 0);
        };
        if known.until <= now {
            self.holds.remove(hold);
            return ("expired", 0);
        }
        let verdict = match known.permits > left {
            true => "released",
            false => "already",
        };
        let more = ask.forgotten.saturating_sub(known.forgotten);
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
