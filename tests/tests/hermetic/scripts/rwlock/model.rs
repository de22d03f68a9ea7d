//! What a read-write lock is, written down once more. Holds are remembered by the model itself; who
//! waits is read from the server, and the model says what may be made of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::scripts::spent::Spent;

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) owner: String,
    /// Token of a writer, serial of a reader.
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
    /// The write hold before it was never given back.
    pub(super) follows_dead: bool,
    /// A release gave it to this attempt, and nobody has confirmed it.
    pub(super) unconfirmed: Option<String>,
}

impl Hold {
    fn new(owner: &str, id: u64, token: u64, until: u64) -> Self {
        Self {
            owner: owner.to_owned(),
            id,
            token,
            attempts: BTreeSet::new(),
            until,
            upgradable: false,
            last_lease: false,
            forced: false,
            noted: 0,
            follows_dead: false,
            unconfirmed: None,
        }
    }
}

/// What an acquisition is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) count: usize,
    pub(super) token: u64,
    pub(super) abandoned: bool,
    pub(super) lasts: Option<u64>,
    pub(super) id: u64,
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
    /// The last write hold, unless it ended cleanly.
    pub(super) write: Option<Hold>,
    pub(super) last_token: Option<u64>,
    released: Option<u64>,
    forced: Option<u64>,
    pub(super) reads: BTreeMap<String, Hold>,
    pub(super) last_serial: u64,
    released_serial: u64,
    pub(super) spent: Spent,
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
        let mut living = self
            .writers
            .iter()
            .filter(|(member, _)| self.alive(member, now, true));
        living
            .next()
            .filter(|_| self.any)
            .map(|(member, _)| member.as_str())
    }

    pub(super) fn first_reader(&self, now: u64) -> Option<u64> {
        let mut living = self
            .readers
            .iter()
            .filter(|(member, _)| self.alive(member, now, false));
        living
            .next()
            .filter(|_| self.any)
            .map(|(_, ticket)| *ticket)
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
        let dead = lock.write.as_ref().filter(|hold| hold.until <= now);
        if let Some(dead) = dead
            && self.batch.is_none_or(|(token, _, _)| token != dead.id)
        {
            let mut others = self
                .readers
                .iter()
                .filter(|(_, ticket)| !self.missed(*ticket, now));
            let lives = others
                .clone()
                .any(|(member, _)| self.alive(member, now, false));
            return others
                .next_back()
                .filter(|_| lives)
                .map(|(_, ticket)| *ticket);
        }
        let (_, until, ticket) = self.batch?;
        (until > now).then_some(ticket)
    }

    fn upgrading(&self, now: u64) -> bool {
        self.upgrader
            .as_ref()
            .is_some_and(|(until, _)| *until > now)
    }
}

impl Rw {
    pub(super) fn live_write(&self, now: u64) -> Option<&Hold> {
        self.write.as_ref().filter(|hold| hold.until > now)
    }

    pub(super) fn live_read(&self, now: u64, owner: &str) -> Option<&Hold> {
        let hold = self.reads.get(owner);
        hold.filter(|hold| hold.until > now && !hold.forced)
    }

    pub(super) fn readers(&self, now: u64) -> usize {
        let all = self.reads.values();
        all.filter(|hold| hold.until > now && !hold.forced).count()
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
        let queue = if upgradable {
            &waiting.writers
        } else {
            &waiting.readers
        };
        if self.spent.refuses(attempt, now) && !holds && !waiting.has(queue, member) {
            return "void";
        }
        if let Some(own) = self.live_read(now, owner) {
            return if upgradable && !own.upgradable {
                "reader"
            } else {
                "granted"
            };
        }
        match self.live_write(now) {
            Some(hold) if hold.owner == owner => return "granted",
            Some(_) => return "busy",
            None => {}
        }
        let first = waiting.first_writer(now);
        if upgradable {
            let taken = self
                .reads
                .values()
                .any(|hold| hold.upgradable && hold.until > now && !hold.forced);
            let turn = first.is_none_or(|first| first == member);
            return if taken || !turn { "busy" } else { "granted" };
        }
        let ticket = waiting.readers.iter().find(|(other, _)| other == member);
        if let (Some((_, ticket)), Some(last)) = (ticket, waiting.batch(self, now))
            && *ticket <= last
            && !waiting.missed(*ticket, now)
        {
            return "granted";
        }
        let held_back = first.is_some_and(|first| !first.ends_with(" u"));
        let right = self
            .reads
            .values()
            .any(|hold| hold.upgradable && hold.until > now && !hold.forced);
        if right && waiting.upgrading(now) || held_back {
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
        if self.spent.refuses(attempt, now) && !holds && !waiting.has(&waiting.writers, member) {
            return "void";
        }
        if live.is_some_and(|hold| hold.owner == owner) {
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
        let turn = waiting
            .first_writer(now)
            .is_none_or(|first| first == member);
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
        let abandoned = self
            .write
            .as_ref()
            .is_some_and(|hold| hold.until <= now && !hold.attempts.is_empty());
        let token = *self.last_token.get_or_insert(micros);
        if self.live_read(now, owner).is_none() {
            self.last_serial = micros.max(self.last_serial + 1);
            self.reads.insert(
                owner.to_owned(),
                Hold {
                    upgradable,
                    ..Hold::new(owner, self.last_serial, token, now + lease)
                },
            );
        }
        let hold = self.reads.get_mut(owner).unwrap();
        hold.token = token;
        join(hold, now, attempt, lease, abandoned)
    }

    pub(super) fn write(
        &mut self,
        now: u64,
        micros: u64,
        owner: &str,
        attempt: &str,
        lease: u64,
    ) -> Granted {
        if let Some(hold) = self.write.as_mut().filter(|hold| hold.until > now) {
            hold.last_lease = self.forced == Some(hold.id);
            hold.unconfirmed = None;
            let follows_dead = hold.follows_dead;
            return join(hold, now, attempt, lease, follows_dead);
        }
        let token = self.last_token.map_or(micros, |last| micros.max(last + 1));
        let abandoned = self
            .write
            .as_ref()
            .is_some_and(|hold| !hold.attempts.is_empty());
        if self.write.is_none() {
            self.released = self.last_token.or(self.released);
        }
        self.last_token = Some(token);
        let hold = self.write.insert(Hold {
            follows_dead: abandoned,
            ..Hold::new(owner, token, token, now + lease)
        });
        join(hold, now, attempt, lease, abandoned)
    }

    /// Gives the lock to the waiter `member`, whose turn it has to be. Returns its attempt and the
    /// message.
    pub(super) fn give(
        &mut self,
        now: u64,
        micros: u64,
        member: &str,
        retention: u64,
    ) -> (String, String) {
        let words: Vec<_> = member.split(' ').collect();
        let [_, channel, n, owner, order] = words[..] else {
            panic!("{member} has no order");
        };
        let parts: Vec<_> = order.strip_prefix('g').unwrap().split('.').collect();
        let lease: u64 = parts[0].parse().unwrap();
        assert_eq!(parts[1], (lease + retention).to_string());
        assert!(self.live_write(now).is_none(), "somebody writes");
        assert_eq!(self.readers(now), 0, "somebody reads");
        let client = channel.rsplit(':').next().unwrap();
        let (owner, attempt) = (format!("{client}:{owner}"), format!("{client}:{n}"));
        let span = lease.min(UNCONFIRMED);
        let granted = self.write(now, micros, &owner, &attempt, span);
        let hold = self.write.as_mut().unwrap();
        hold.unconfirmed = Some(attempt.clone());
        let (token, ends) = (granted.token, hold.until);
        let abandoned = u8::from(granted.abandoned);
        let grant = format!("g{}.{token}.{ends}.{abandoned}", parts[2]);
        (attempt, grant)
    }

    pub(super) fn renew(
        &mut self,
        now: u64,
        owner: &str,
        lease: u64,
        side: &str,
        id: u64,
    ) -> &'static str {
        let hold = if side == "w" {
            if self.forced == Some(id) {
                return "revoked";
            }
            self.write.as_mut().filter(|hold| hold.owner == owner)
        } else {
            self.reads.get_mut(owner)
        };
        if self.last_token > Some(id)
            && (side == "w" || hold.as_ref().is_none_or(|hold| hold.id != id))
        {
            return "taken";
        }
        match hold.filter(|hold| hold.id == id) {
            None if side == "r" && self.last_serial >= id => "expired",
            None => "gone",
            Some(hold) if hold.forced || hold.last_lease && side == "r" => "revoked",
            Some(hold) if hold.until <= now => "expired",
            Some(hold) => {
                hold.until = hold.until.max(now + lease);
                hold.unconfirmed = None;
                "renewed"
            }
        }
    }

    /// Ends an attempt; returns verdict and how many hold on.
    pub(super) fn release(
        &mut self,
        now: u64,
        owner: &str,
        attempt: &str,
        side: &str,
        id: Option<u64>,
    ) -> (&'static str, usize) {
        if side == "w" {
            self.release_write(now, owner, attempt, id)
        } else {
            self.release_read(now, owner, attempt, id)
        }
    }

    fn release_write(
        &mut self,
        now: u64,
        owner: &str,
        attempt: &str,
        id: Option<u64>,
    ) -> (&'static str, usize) {
        let live = self.live_write(now).is_some();
        let forced = self.forced;
        let withdrawn = self.write.as_ref();
        let withdrawn = withdrawn.is_some_and(|hold| hold.attempts.contains("-"));
        let own = self.write.as_mut().filter(|hold| hold.owner == owner);
        let own = own.filter(|hold| hold.attempts.contains(attempt));
        let verdict = match own {
            Some(hold) => {
                hold.attempts.remove(attempt);
                let held = hold.id;
                let unheard = id.is_none() && hold.follows_dead;
                let verdict = match live {
                    true => "released",
                    false if forced == Some(held) => "revoked",
                    false => "expired",
                };
                if hold.attempts.is_empty() && unheard {
                    // The next holder is told how the one before ended.
                    let mark = if live || hold.unconfirmed.is_some() {
                        "-"
                    } else {
                        "="
                    };
                    hold.attempts.insert(mark.to_owned());
                    hold.until = 0;
                } else if hold.attempts.is_empty() && live {
                    self.write = None;
                }
                if id.is_some_and(|id| id < held) {
                    "taken"
                } else {
                    verdict
                }
            }
            None => match (self.last_token, id) {
                (Some(last), Some(id)) if last == id && (live || self.write.is_none()) => "already",
                (Some(_), Some(id)) if self.released == Some(id) => "already",
                (Some(_), Some(id)) if forced == Some(id) => "revoked",
                (Some(last), Some(id)) if last == id && withdrawn => "already",
                (Some(last), Some(id)) if last == id => "expired",
                (Some(last), Some(id)) if id < last => "taken",
                _ => "gone",
            },
        };
        let left = self.live_write(now).filter(|hold| hold.owner == owner);
        (verdict, left.map_or(0, |hold| hold.attempts.len()))
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
            let verdict = if id.is_some_and(|id| id < held) {
                "taken"
            } else {
                verdict
            };
            return (verdict, if live { left } else { 0 });
        }
        let hold = self.reads.get(owner);
        let left = self
            .live_read(now, owner)
            .map_or(0, |hold| hold.attempts.len());
        let Some(id) = id else {
            return ("gone", left);
        };
        let verdict = match hold.filter(|hold| hold.id == id) {
            Some(_) if live => "already",
            Some(hold) if hold.forced => "revoked",
            Some(_) => "expired",
            None if self.released_serial == id => "already",
            None if self.last_token > Some(id) => "taken",
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
        if self.spent.refuses(attempt, now) && !holds {
            return Err("void");
        }
        let last = self.last_token == Some(token);
        let writes = self
            .live_write(now)
            .is_some_and(|hold| hold.owner == owner && last);
        let reads = self
            .live_read(now, owner)
            .is_some_and(|hold| hold.token == token && last);
        if writes || reads {
            return Ok(());
        }
        Err(match self.last_token {
            Some(last) if last > token => "taken",
            _ if self.forced == Some(token) => "revoked",
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
            let forced = self.forced;
            return match &mut self.write {
                Some(hold) if hold.until > now && hold.id == id => {
                    if how == "now" {
                        hold.until = now;
                    }
                    self.forced = Some(id);
                    "done"
                }
                _ if forced == Some(id) => "already",
                _ => "gone",
            };
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

/// The longest lease of a hold that nobody has confirmed, in ms.
const UNCONFIRMED: u64 = 5_000;

fn join(hold: &mut Hold, now: u64, attempt: &str, lease: u64, abandoned: bool) -> Granted {
    hold.attempts.insert(attempt.to_owned());
    if !hold.last_lease {
        hold.until = hold.until.max(now + lease);
    }
    Granted {
        count: hold.attempts.len(),
        token: hold.token,
        abandoned,
        lasts: (hold.until < now + lease).then(|| hold.until - now),
        id: hold.id,
    }
}
