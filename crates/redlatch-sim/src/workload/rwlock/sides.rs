//! Checks that neither side starves. At most one write begins while a reader waits. A reader that
//! arrived after the first of the waiting writers goes before it only if a write has ended
//! meanwhile.
//!
//! [`Sides`] reads the replies of the server, with the server's time, in runs without faults of
//! messages.

use std::collections::BTreeMap;

use crate::{
    names::label,
    scripts::Ran,
    watch::{OfName, Record, View},
};

/// The waiters of one name. Times are the server's, in ms.
#[derive(Debug, Default)]
pub(super) struct Sides {
    /// In order of arrival.
    waiters: Vec<Waiter>,
    /// The first attempt of the queue, and the time since which it is the first.
    first: (String, u64),
    /// Per client: until when it counts as alive.
    alive: BTreeMap<String, u64>,
    /// The writing owner, and the end of its hold.
    write: Option<(String, u64)>,
    /// The attempt to which a script has given the lock, until its client answers.
    given: Option<String>,
    /// Whether a call went without the keys of the queue, since the slot was on the move. It does
    /// not note whose turn is next, which counts until the lock has no waiter and no writer.
    split: bool,
    /// The token of the last write.
    token: u64,
    /// The time at which a write last ended.
    ended: u64,
}

#[derive(Debug)]
struct Waiter {
    attempt: String,
    owner: String,
    side: Side,
    since: u64,
    /// The number of writes that have begun since.
    writes: u32,
}

/// How a waiter is to hold the lock. Those that are to read wait beside the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Read,
    Look,
    Write,
}

impl OfName for Sides {
    fn ran(&mut self, name: usize, now: u64, ran: &Ran<'_>, view: &View, record: &mut Record) {
        if !view.conditions.calm {
            return;
        }
        self.pass(now);
        let broken = match ran.source.name {
            "rwlock/read" => self.read(ran, now),
            "rwlock/write" => self.write(ran, now),
            _ => {
                self.end(ran, now);
                self.given(ran)
            }
        };
        self.settle(now);
        self.split |= ran.is_bare();
        self.split &= !self.waiters.is_empty() || self.write.is_some();
        if let Some(what) = broken.filter(|_| !self.split) {
            record.violate("sides", format!("{}: {what}", label(name)));
        }
    }
}

impl Sides {
    /// Removes holds and waiters whose time is over.
    fn pass(&mut self, now: u64) {
        if let Some((_, until)) = self.write.take_if(|(_, until)| *until <= now) {
            self.ended = until;
        }
        let alive = |client: &str| self.alive.get(client).is_some_and(|&until| until > now);
        self.waiters.retain(|it| alive(client(&it.attempt)));
        self.settle(now);
    }

    /// Returns the first of the queue.
    fn head(&self) -> Option<&Waiter> {
        self.waiters.iter().find(|it| it.side != Side::Read)
    }

    fn settle(&mut self, now: u64) {
        let first = self.head().map_or("", |it| &it.attempt);
        if first != self.first.0 {
            self.first = (first.to_owned(), now);
        }
    }

    fn read(&mut self, ran: &Ran<'_>, now: u64) -> Option<String> {
        let (attempt, upgradable) = (ran.arg(6), ran.arg(9) == "u");
        let side = if upgradable { Side::Look } else { Side::Read };
        match ran.verdict() {
            "busy" => self.waits(ran, now, side),
            "granted" => {
                let since = self.leave(attempt).map_or(now, |it| it.since);
                let writes = self.write.as_ref().is_some_and(|(it, _)| it == ran.arg(5));
                let fresh = ran.number(3) == Some(1) && !writes && !upgradable;
                let (first, came) = &self.first;
                let held_back = self.head().is_some_and(|it| it.side == Side::Write);
                if fresh && held_back && since > *came && self.ended < since {
                    return Some(format!(
                        "{attempt} reads before {first}, which waits to write and was the first when it came"
                    ));
                }
            }
            _ => {}
        }
        None
    }

    fn write(&mut self, ran: &Ran<'_>, now: u64) -> Option<String> {
        match ran.verdict() {
            "busy" => self.waits(ran, now, Side::Write),
            "granted" => {
                self.leave(ran.arg(6));
                let until = now + ran.arg(3).parse::<u64>().unwrap_or(0);
                // An attempt asks again about a hold that it has, if a message may be lost. The
                // token is that of the hold then.
                let token = ran.number(4).unwrap_or(0);
                if ran.number(3) == Some(1) && token != self.token {
                    return self.begins(ran.arg(5).to_owned(), token, until);
                }
                self.lasts(until);
            }
            _ => {}
        }
        None
    }

    /// Handles a grant that a script has made on behalf of a waiter.
    fn given(&mut self, ran: &Ran<'_>) -> Option<String> {
        let given = ran.given().next()?;
        let owner = self.leave(given.attempt).map(|it| it.owner);
        let starved = self.begins(owner.unwrap_or_default(), given.token, given.ends);
        self.given = Some(given.attempt.to_owned());
        starved
    }

    /// Handles the beginning of a write. Returns a reader that waits too long.
    fn begins(&mut self, owner: String, token: u64, until: u64) -> Option<String> {
        self.write = Some((owner, until));
        self.given = None;
        self.token = token;
        self.waiters.iter_mut().for_each(|it| it.writes += 1);
        let starves = |it: &&Waiter| it.side == Side::Read && it.writes > MOST;
        let starved = self.waiters.iter().rfind(starves)?;
        let (reader, writes) = (&starved.attempt, starved.writes);
        let what = format!("{reader} waits to read, and {writes} writes have begun since");
        Some(what)
    }

    /// Handles the end or the extension of a hold or a wait.
    fn end(&mut self, ran: &Ran<'_>, now: u64) {
        match (ran.source.name, ran.verdict()) {
            ("rwlock/renew", "renewed") if ran.arg(6) == "w" => {
                self.given = None;
                self.lasts(now + ran.arg(3).parse::<u64>().unwrap_or(0));
            }
            ("rwlock/release", verdict) => {
                // Without the keys of the queue, a place in it stays.
                let gone = |it: &Waiter| {
                    it.attempt == ran.arg(4) && (it.side == Side::Read || !ran.is_bare())
                };
                self.waiters.retain(|it| !gone(it));
                let over = verdict == "released" && ran.number(3) == Some(0);
                if ran.arg(7) == "w" && over {
                    self.ends(now);
                }
            }
            ("rwlock/withdraw", _) => {
                for attempt in ran.withdrawn(3) {
                    self.leave(&attempt);
                    if self.given.take_if(|given| *given == attempt).is_some() {
                        self.ends(now);
                    }
                }
            }
            // The writer's other attempts may continue, and no reader enters while they do.
            ("rwlock/downgrade", "granted") => self.ended = now,
            ("rwlock/force", "done") if ran.arg(1) == "w" && ran.arg(4) == "now" => {
                self.ends(now);
            }
            _ => {}
        }
    }

    fn ends(&mut self, now: u64) {
        self.write = None;
        self.ended = now;
    }

    fn lasts(&mut self, until: u64) {
        if let Some((_, known)) = &mut self.write {
            *known = until.max(*known);
        }
    }

    /// Handles a busy reply. If it has registered the waiter, the client counts as alive.
    fn waits(&mut self, ran: &Ran<'_>, now: u64, side: Side) {
        let (owner, attempt) = (ran.arg(5), ran.arg(6));
        let Ok(span) = ran.arg(7).parse::<u64>() else {
            return;
        };
        self.alive.insert(client(attempt).to_owned(), now + span);
        let entered = ran.number(6) == Some(1);
        if entered {
            self.leave(attempt);
            self.waiters.push(Waiter {
                attempt: attempt.to_owned(),
                owner: owner.to_owned(),
                side,
                since: now,
                writes: 0,
            });
        }
    }

    /// Removes a waiter.
    fn leave(&mut self, attempt: &str) -> Option<Waiter> {
        let at = self.waiters.iter().position(|it| it.attempt == attempt)?;
        Some(self.waiters.remove(at))
    }
}

/// Checks that a reader's token is that of the last write. It covers every write that was granted
/// before, and no later write. Records the token of the last write that the server granted.
#[derive(Debug, Default)]
pub(super) struct Freshness(u64);

impl OfName for Freshness {
    fn ran(&mut self, name: usize, _: u64, ran: &Ran<'_>, view: &View, record: &mut Record) {
        if view.conditions.loses_writes || view.conditions.expects_trouble {
            return;
        }
        let Self(last) = self;
        if ran.verdict() != "granted" {
            *last = ran.given().next().map_or(*last, |given| given.token);
            return;
        }
        let Some(token) = ran.number(4) else { return };
        match ran.source.name {
            "rwlock/write" => *last = token,
            "rwlock/read" | "rwlock/downgrade" if token < *last => {
                let name = label(name);
                let what = format!(
                    "a reader of {name} is told that {token} was the last write, and it was {last}"
                );
                record.violate("fresh", what);
            }
            // A server that has lost its data makes up a token that counts as a write.
            "rwlock/read" | "rwlock/downgrade" => *last = token,
            _ => {}
        }
    }
}

fn client(attempt: &str) -> &str {
    attempt.split(':').next().unwrap_or_default()
}

/// The number of writes that may begin while a reader waits.
const MOST: u32 = 1;
