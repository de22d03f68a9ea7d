//! What a read-write lock is, written down once more. Holds are remembered by the model itself; who
//! waits is read from the server, and the model says what may be made of it.

use std::collections::BTreeSet;

use crate::scripts::{
    model::{self, Granted, Lock},
    prelude::*,
    queue::timed,
};

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
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// Anybody may wait.
    pub(super) any: bool,
    /// Those who want to write or to read upgradably, and those who want to read.
    pub(super) writers: Queue,
    pub(super) readers: Queue,
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
    pub(super) fn read(bed: &mut Bed) -> Self {
        let fields = bed.hash(&key("x"));
        let batch = fields.get("b").map(|text| {
            let at = |from: usize, to: usize| text[from..to].parse().unwrap();
            (at(0, 16), at(17, 30), at(31, 47))
        });
        let writers = Queue::read(bed, "x", "q");
        // Readers are not called one by one.
        let mut readers = Queue::read(bed, "x", "r");
        readers.called = None;
        Self {
            any: writers.flag > Some(bed.millis()),
            writers,
            readers,
            batch,
            upgrader: fields.get("x").map(|text| timed(text)),
        }
    }

    /// Removes a waiter.
    pub(super) fn leave(&mut self, member: &str) {
        self.writers.leave(member);
        self.readers.leave(member);
        self.upgrader.take_if(|(_, other)| other.as_str() == member);
    }

    /// Tells whether a waiter has a place in one of the queues.
    pub(super) fn has(&self, member: &str) -> bool {
        self.writers.has(member) || self.readers.has(member)
    }

    /// Tells whether it has one, and lives.
    pub(super) fn stands(&self, member: &str, now: u64) -> bool {
        let lives = |queue: &Queue| queue.has(member) && queue.alive(member) > now;
        self.any && (lives(&self.writers) || lives(&self.readers))
    }

    /// Tells whether it is the upgradable reader who waits to write.
    pub(super) fn upgrades(&self, member: &str, now: u64) -> bool {
        let upgrader = self.upgrader.as_ref();
        upgrader.is_some_and(|(until, other)| other == member && *until > now)
    }

    pub(super) fn first_writer(&self, now: u64) -> Option<&str> {
        let first = self.writers.first(now).filter(|_| self.any);
        first.map(|(member, _)| member)
    }

    fn first_reader(&self, now: u64) -> Option<u64> {
        let first = self.readers.first(now).filter(|_| self.any);
        first.map(|(_, ticket)| ticket)
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
            let others = self.readers.members.iter();
            let mut others = others.filter(|(_, ticket)| !self.missed(*ticket, now));
            let lives = |(member, _): &(String, u64)| self.readers.alive(member) > now;
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
    /// The key is gone.
    pub(super) fn forget(&mut self) {
        self.write.forget();
        *self = Self {
            write: std::mem::take(&mut self.write),
            ..Self::default()
        };
    }

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

    /// Returns what is told to an attempt: granted, busy, void; reader, to one that would wait for
    /// itself; lost, to one whose upgradable hold is over.
    pub(super) fn verdict(&self, now: u64, ask: &Ask, waiting: &Waiting) -> &'static str {
        let (read, write) = (self.live_read(now, &ask.owner), self.live_write(now));
        let write = write.filter(|hold| hold.owner == ask.owner);
        let (attempts, queue) = match ask.of {
            Of::Read => (read.map(|hold| &hold.attempts), &waiting.readers),
            Of::Upgradable => (read.map(|hold| &hold.attempts), &waiting.writers),
            _ => (write.map(|hold| &hold.attempts), &waiting.writers),
        };
        let holds = attempts.is_some_and(|attempts| attempts.contains(&ask.attempt));
        let upgrader = waiting.upgrader.as_ref();
        // A place counts even if its waiter counts as dead.
        let waits =
            queue.has(&ask.address) || upgrader.is_some_and(|(_, member)| *member == ask.address);
        if self.write.spent.refuses(&ask.attempt, now) && !holds && !waits {
            return "void";
        }
        match ask.of.side() {
            "r" => self.may_read(now, ask, waiting),
            _ => self.may_write(now, ask, waiting),
        }
    }

    fn may_read(&self, now: u64, ask: &Ask, waiting: &Waiting) -> &'static str {
        let (member, upgradable) = (ask.address.as_str(), ask.of == Of::Upgradable);
        match self.live_read(now, &ask.owner) {
            Some(own) if upgradable && !own.upgradable => return "reader",
            Some(_) => return "granted",
            None => {}
        }
        match self.live_write(now) {
            Some(hold) if hold.owner == ask.owner => return "granted",
            Some(_) => return "busy",
            None => {}
        }
        let first = waiting.first_writer(now);
        if upgradable {
            let turn = first.is_none_or(|first| first == member);
            let free = turn && !self.is_upgradable(now);
            return if free { "granted" } else { "busy" };
        }
        if let (Some(ticket), Some(last)) =
            (waiting.readers.ticket(member), waiting.batch(self, now))
            && ticket <= last
            && !waiting.missed(ticket, now)
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

    fn may_write(&self, now: u64, ask: &Ask, waiting: &Waiting) -> &'static str {
        let live = self.live_write(now);
        if live.is_some_and(|hold| hold.owner == ask.owner) {
            return "granted";
        }
        let own = self.live_read(now, &ask.owner);
        if let Of::Upgrade(serial) = ask.of
            && own.is_none_or(|hold| hold.id != serial)
        {
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
        let first = waiting.first_writer(now).filter(|_| own.is_none());
        let turn = first.is_none_or(|first| first == ask.address);
        if owed || !turn { "busy" } else { "granted" }
    }

    pub(super) fn read(&mut self, time: ServerTime, ask: &Ask) -> Granted {
        let (now, micros, lease) = (time.millis(), time.micros(), ask.lease);
        let dead = self.write.hold.as_ref().filter(|hold| hold.until <= now);
        let abandoned = dead.is_some_and(|hold| !hold.attempts.is_empty());
        let token = *self.write.last_token.get_or_insert(micros);
        self.write.spent.record(&ask.attempt, ask.by, now);
        if self.live_read(now, &ask.owner).is_none() {
            self.last_serial = micros.max(self.last_serial + 1);
            let hold = Hold {
                owner: ask.owner.clone(),
                id: self.last_serial,
                upgradable: ask.of == Of::Upgradable,
                ..Hold::default()
            };
            self.reads.insert(ask.owner.clone(), hold);
        }
        let hold = self.reads.get_mut(&ask.owner).unwrap();
        hold.token = token;
        hold.attempts.insert(ask.attempt.clone());
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

    pub(super) fn renew(&mut self, now: u64, ask: &Ask, lease: u64, id: u64) -> &'static str {
        if ask.of.side() == "w" {
            return self.write.renew(now, &ask.owner, lease, id);
        }
        let hold = self.reads.get_mut(&ask.owner).filter(|hold| hold.id == id);
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
        ask: &Ask,
        void: Option<u64>,
        id: Option<u64>,
    ) -> (&'static str, usize) {
        let (owner, attempt) = (&*ask.owner, &*ask.attempt);
        if ask.of.side() == "w" {
            let token = id.unwrap_or_default();
            return self.write.release(now, owner, attempt, void, token);
        }
        self.write.end_attempt(attempt, void, now);
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

    /// As `verdict`, for the owner of the write with this token. With what became of the write, if
    /// it is over.
    pub(super) fn may_downgrade(&self, now: u64, ask: &Ask, token: u64) -> &'static str {
        let own = self.live_read(now, &ask.owner);
        let holds = own.is_some_and(|hold| hold.attempts.contains(&ask.attempt));
        if self.write.spent.refuses(&ask.attempt, now) && !holds {
            return "void";
        }
        let reads = own.is_some_and(|hold| hold.token == token);
        let writer = self.live_write(now);
        let writes = writer.is_some_and(|hold| hold.owner == ask.owner);
        match self.write.last_token {
            Some(last) if last == token && (reads || writes) => "granted",
            Some(last) if last > token => "lost taken",
            _ if self.write.forced == Some(token) => "lost revoked",
            Some(last) if last == token => "lost expired",
            _ => "lost gone",
        }
    }

    pub(super) fn force(&mut self, now: u64, ask: &Ask, id: u64, how: &str) -> &'static str {
        if ask.of.side() == "w" {
            return self.write.force(now, id, how);
        }
        match self.reads.get_mut(&ask.owner).filter(|hold| hold.id == id) {
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
