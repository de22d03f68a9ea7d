//! What a read-write lock is, written down once more. Holds are remembered by the model itself; who
//! waits is read from the server, and the model says what may be made of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::scripts::model::{self, Granted, Lock};

/// A read hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) owner: String,
    /// The serial.
    pub(super) id: u64,
    /// The last write's, when its owner last came in.
    pub(super) token: u64,
    pub(super) attempts: BTreeSet<String>,
    pub(super) until: u64,
    pub(super) upgradable: bool,
    /// Its renewal is forbidden.
    pub(super) last_lease: bool,
    pub(super) forced: bool,
    /// Until when its owner is to learn that.
    pub(super) noted: u64,
}

/// Who waits, as the server has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Anybody may wait.
    pub(super) any: bool,
    /// Those who want to write or to read upgradably, in order: member and ticket.
    pub(super) writers: Vec<(String, u64)>,
    pub(super) readers: Vec<(String, u64)>,
    pub(super) clients: BTreeMap<String, u64>,
    pub(super) called: Option<(u64, String)>,
    /// After which token, until when, up to which ticket.
    pub(super) batch: Option<(u64, u64, u64)>,
    pub(super) upgrader: Option<(u64, String)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rw {
    /// What writers have. Readers share its last token, and its record of attempts.
    pub(super) write: Lock,
    pub(super) reads: BTreeMap<String, Hold>,
    pub(super) last_serial: u64,
    released_serial: u64,
}

impl Hold {
    pub(super) fn lives(&self, now: u64) -> bool {
        self.until > now && !self.forced
    }
}

impl Waiting {
    fn alive(&self, member: &str, now: u64, calls: bool) -> bool {
        let channel = member.split(' ').nth(1).unwrap();
        let patient = match &self.called {
            Some((until, called)) if calls && called == member => *until > now,
            _ => true,
        };
        patient && self.clients.get(channel).is_some_and(|&until| until > now)
    }

    /// Tells whether a waiter has a place in this queue or as an upgrade, even if it counts as
    /// dead.
    fn has(&self, queue: &[(String, u64)], member: &str) -> bool {
        let upgrader = self.upgrader.as_ref();
        upgrader.is_some_and(|(_, other)| other == member)
            || queue.iter().any(|(other, _)| other == member)
    }

    /// Tells whether a waiter has a living place in one of the queues.
    pub(super) fn stands(&self, member: &str, now: u64) -> bool {
        let mut queues = self.writers.iter().chain(&self.readers);
        self.any && queues.any(|(other, _)| other == member) && self.alive(member, now, true)
    }

    /// Tells whether it is the upgradable reader who waits to write.
    pub(super) fn upgrades(&self, member: &str, now: u64) -> bool {
        let upgrader = self.upgrader.as_ref();
        upgrader.is_some_and(|(until, other)| other == member && *until > now)
    }

    pub(super) fn first_writer(&self, now: u64) -> Option<&str> {
        let mut writers = self.writers.iter().filter(|_| self.any);
        let first = writers.find(|(member, _)| self.alive(member, now, true));
        first.map(|(member, _)| member.as_str())
    }

    pub(super) fn first_reader(&self, now: u64) -> Option<u64> {
        let mut readers = self.readers.iter().filter(|_| self.any);
        let first = readers.find(|(member, _)| self.alive(member, now, false));
        first.map(|(_, ticket)| *ticket)
    }

    /// Tells whether a reader with this ticket was let in, and did not come in time.
    pub(super) fn missed(&self, ticket: u64, now: u64) -> bool {
        self.batch
            .is_some_and(|(_, until, last)| until <= now && ticket <= last)
    }

    /// Returns the last ticket of those who go before the next writer, if the way is open to any.
    fn batch(&self, lock: &Rw, now: u64) -> Option<u64> {
        if !self.any {
            return None;
        }
        let dead = lock.write.hold.as_ref().filter(|hold| hold.until <= now);
        if let Some(dead) = dead
            && self.batch.is_none_or(|(token, _, _)| token != dead.token)
        {
            let others = self.readers.iter();
            let mut others = others.filter(|(_, ticket)| !self.missed(*ticket, now));
            let lives = |(member, _): &(String, u64)| self.alive(member, now, false);
            let some_lives = others.clone().any(lives);
            let last = others.next_back().filter(|_| some_lives);
            return last.map(|(_, ticket)| *ticket);
        }
        let (_, until, ticket) = self.batch?;
        (until > now).then_some(ticket)
    }

    fn upgrading(&self, now: u64) -> bool {
        let upgrader = self.upgrader.as_ref();
        upgrader.is_some_and(|(until, _)| *until > now)
    }
}

impl Rw {
    pub(super) fn live_write(&self, now: u64) -> Option<&model::Hold> {
        self.write.live(now)
    }

    pub(super) fn live_read(&self, now: u64, owner: &str) -> Option<&Hold> {
        self.reads.get(owner).filter(|hold| hold.lives(now))
    }

    pub(super) fn readers(&self, now: u64) -> usize {
        self.reads.values().filter(|hold| hold.lives(now)).count()
    }

    /// Tells whether anybody reads upgradably.
    fn is_upgradable(&self, now: u64) -> bool {
        let mut reads = self.reads.values();
        reads.any(|hold| hold.upgradable && hold.lives(now))
    }

    /// Returns what a reader is told: granted, busy, void, reader.
    pub(super) fn may_read(
        &self,
        now: u64,
        owner: &str,
        attempt: &str,
        member: &str,
        upgradable: bool,
        waiting: &Waiting,
    ) -> &'static str {
        let own = self.live_read(now, owner);
        let holds = own.is_some_and(|hold| hold.attempts.contains(attempt));
        let queue = match upgradable {
            true => &waiting.writers,
            false => &waiting.readers,
        };
        if self.write.spent.refuses(attempt, now) && !holds && !waiting.has(queue, member) {
            return "void";
        }
        match own {
            Some(own) if upgradable && !own.upgradable => return "reader",
            Some(_) => return "granted",
            None => {}
        }
        match self.live_write(now) {
            Some(hold) if hold.owner == owner => return "granted",
            Some(_) => return "busy",
            None => {}
        }
        let first = waiting.first_writer(now);
        if upgradable {
            let turn = first.is_none_or(|first| first == member);
            let free = turn && !self.is_upgradable(now);
            return if free { "granted" } else { "busy" };
        }
        let ticket = waiting.readers.iter().find(|(other, _)| other == member);
        if let (Some((_, ticket)), Some(last)) = (ticket, waiting.batch(self, now))
            && *ticket <= last
            && !waiting.missed(*ticket, now)
        {
            return "granted";
        }
        let held_back = first.is_some_and(|first| !first.ends_with(" u"));
        if self.is_upgradable(now) && waiting.upgrading(now) || held_back {
            "busy"
        } else {
            "granted"
        }
    }

    /// Returns what a writer is told: granted, busy, void, reader, lost.
    pub(super) fn may_write(
        &self,
        now: u64,
        owner: &str,
        attempt: &str,
        member: &str,
        serial: Option<u64>,
        waiting: &Waiting,
    ) -> &'static str {
        let live = self.live_write(now);
        let own = live.filter(|hold| hold.owner == owner);
        let holds = own.is_some_and(|hold| hold.attempts.contains(attempt));
        let waits = waiting.has(&waiting.writers, member);
        if self.write.spent.refuses(attempt, now) && !holds && !waits {
            return "void";
        }
        if own.is_some() {
            return "granted";
        }
        let own = self.live_read(now, owner);
        if serial.is_some() && own.map(|hold| hold.id) != serial {
            return "lost";
        }
        if own.is_some_and(|hold| !hold.upgradable) {
            return "reader";
        }
        let others = self.readers(now) - usize::from(own.is_some());
        if live.is_some() || others > 0 {
            return "busy";
        }
        let owed = match (waiting.first_reader(now), waiting.batch(self, now)) {
            (Some(first), Some(last)) => first <= last,
            _ => false,
        };
        if own.is_some() {
            return if owed { "busy" } else { "granted" };
        }
        let first = waiting.first_writer(now);
        let turn = first.is_none_or(|first| first == member);
        if owed || !turn { "busy" } else { "granted" }
    }

    pub(super) fn read(
        &mut self,
        now: u64,
        micros: u64,
        owner: &str,
        attempt: &str,
        lease: u64,
        upgradable: bool,
    ) -> Granted {
        let dead = self.write.hold.as_ref().filter(|hold| hold.until <= now);
        let abandoned = dead.is_some_and(|hold| !hold.attempts.is_empty());
        let token = *self.write.last_token.get_or_insert(micros);
        if self.live_read(now, owner).is_none() {
            self.last_serial = micros.max(self.last_serial + 1);
            let hold = Hold {
                owner: owner.to_owned(),
                id: self.last_serial,
                upgradable,
                ..Hold::default()
            };
            self.reads.insert(owner.to_owned(), hold);
        }
        let hold = self.reads.get_mut(owner).unwrap();
        hold.token = token;
        hold.attempts.insert(attempt.to_owned());
        if !hold.last_lease {
            hold.until = hold.until.max(now + lease);
        }
        Granted {
            count: hold.attempts.len(),
            token,
            abandoned,
            lasts: (hold.until < now + lease).then(|| hold.until - now),
            id: hold.id,
        }
    }

    pub(super) fn renew(
        &mut self,
        now: u64,
        owner: &str,
        lease: u64,
        side: &str,
        id: u64,
    ) -> &'static str {
        if side == "w" {
            return self.write.renew(now, owner, lease, id);
        }
        let hold = self.reads.get_mut(owner).filter(|hold| hold.id == id);
        match hold {
            None if self.write.last_token > Some(id) => "taken",
            None if self.last_serial >= id => "expired",
            None => "gone",
            Some(hold) if hold.forced || hold.last_lease => "revoked",
            Some(hold) if hold.until <= now => "expired",
            Some(hold) => {
                hold.until = hold.until.max(now + lease);
                "renewed"
            }
        }
    }

    /// Ends an attempt, of which copies may act until `void`; returns verdict and how many hold on.
    pub(super) fn release(
        &mut self,
        now: u64,
        (owner, attempt): (&str, &str),
        void: Option<u64>,
        side: &str,
        id: Option<u64>,
    ) -> (&'static str, usize) {
        if side == "w" {
            let token = id.unwrap_or_default();
            return self.write.release(now, owner, attempt, void, token);
        }
        self.write.end_attempt(attempt, void, now);
        self.release_read(now, owner, attempt, id)
    }

    fn release_read(
        &mut self,
        now: u64,
        owner: &str,
        attempt: &str,
        id: Option<u64>,
    ) -> (&'static str, usize) {
        let live = self.live_read(now, owner).is_some();
        if let Some(hold) = self.reads.get_mut(owner)
            && hold.attempts.remove(attempt)
        {
            let verdict = match live {
                true => "released",
                false if hold.forced => "revoked",
                false => "expired",
            };
            let (held, left) = (hold.id, hold.attempts.len());
            if left == 0 {
                self.reads.remove(owner);
                if live {
                    self.released_serial = held;
                }
            }
            let verdict = match id {
                Some(id) if id < held => "taken",
                _ => verdict,
            };
            return (verdict, if live { left } else { 0 });
        }
        let hold = self.reads.get(owner);
        let live_hold = hold.filter(|_| live);
        let left = live_hold.map_or(0, |hold| hold.attempts.len());
        let Some(id) = id else {
            return ("gone", left);
        };
        let verdict = match hold.filter(|hold| hold.id == id) {
            Some(_) if live => "already",
            Some(hold) if hold.forced => "revoked",
            Some(_) => "expired",
            None if self.released_serial == id => "already",
            None if self.write.last_token > Some(id) => "taken",
            None => "gone",
        };
        (verdict, left)
    }

    /// Returns what became of the write, if it is over.
    pub(super) fn may_downgrade(
        &self,
        now: u64,
        owner: &str,
        attempt: &str,
        token: u64,
    ) -> Result<(), &'static str> {
        let own = self.live_read(now, owner);
        let holds = own.is_some_and(|hold| hold.attempts.contains(attempt));
        if self.write.spent.refuses(attempt, now) && !holds {
            return Err("void");
        }
        let last = self.write.last_token == Some(token);
        let reads = own.is_some_and(|hold| hold.token == token);
        let writer = self.live_write(now);
        if last && (reads || writer.is_some_and(|hold| hold.owner == owner)) {
            return Ok(());
        }
        Err(match self.write.last_token {
            Some(last) if last > token => "taken",
            _ if self.write.forced == Some(token) => "revoked",
            Some(last) if last == token => "expired",
            _ => "gone",
        })
    }

    pub(super) fn force(
        &mut self,
        now: u64,
        owner: &str,
        side: &str,
        id: u64,
        how: &str,
    ) -> &'static str {
        if side == "w" {
            return self.write.force(now, id, how);
        }
        match self.reads.get_mut(owner).filter(|hold| hold.id == id) {
            Some(hold) if hold.forced => "already",
            Some(hold) if hold.until > now => {
                if how == "now" {
                    hold.noted = hold.until;
                    hold.until = now;
                    hold.forced = true;
                } else if std::mem::replace(&mut hold.last_lease, true) {
                    return "already";
                }
                "done"
            }
            _ => "gone",
        }
    }
}
