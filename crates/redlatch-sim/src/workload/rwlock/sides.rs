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
    watch::{Checker, Event, Record, View},
};

/// The waiters of each name.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) names: Vec<Lines>,
}

/// The waiters of one name. Times are the server's, in ms.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// The waiting readers, by attempt.
    readers: BTreeMap<String, Reader>,
    /// Attempts to write or to read upgradably, in order of arrival.
    queue: Vec<Writer>,
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

#[derive(Clone, Debug)]
struct Writer {
    attempt: String,
    owner: String,
    /// Whether it waits to write, and not to read.
    writes: bool,
}

#[derive(Clone, Debug)]
struct Reader {
    since: u64,
    /// The number of writes that have begun since.
    writes: u32,
}

impl Checker for Sides {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Some((ran, name, now)) = event.ran() else {
            return;
        };
        if !view.conditions.calm {
            return;
        }
        let lines = &mut self.names[name];
        lines.pass(now);
        let broken = match ran.source.name {
            "rwlock/read" => lines.read(ran, now),
            "rwlock/write" => lines.write(ran, now),
            _ => {
                lines.end(ran, now);
                lines.given(ran)
            }
        };
        lines.settle(now);
        lines.split |= ran.is_bare();
        lines.split &= !lines.is_idle();
        if let Some(what) = broken.filter(|_| !lines.split) {
            record.violate("sides", format!("{}: {what}", label(name)));
        }
    }
}

impl Lines {
    /// Removes holds and waiters whose time is over.
    fn pass(&mut self, now: u64) {
        if let Some((_, until)) = self.write.take_if(|(_, until)| *until <= now) {
            self.ended = until;
        }
        let alive = &self.alive;
        let lives = |attempt: &str| alive.get(client(attempt)).is_some_and(|&until| until > now);
        self.readers.retain(|attempt, _| lives(attempt));
        self.queue.retain(|it| lives(&it.attempt));
        self.settle(now);
    }

    fn settle(&mut self, now: u64) {
        let first = self.queue.first().map_or("", |it| &it.attempt);
        if first != self.first.0 {
            self.first = (first.to_owned(), now);
        }
    }

    fn read(&mut self, ran: &Ran<'_>, now: u64) -> Option<String> {
        let (attempt, upgradable) = (ran.arg(6), ran.arg(9) == "u");
        match ran.verdict() {
            "busy" if upgradable => self.queues(ran, now, false),
            "busy" if self.registers(ran, now) && entered(ran) => {
                let reader = Reader {
                    since: now,
                    writes: 0,
                };
                self.readers.insert(attempt.to_owned(), reader);
            }
            "granted" => {
                self.leave(attempt);
                let since = self
                    .readers
                    .remove(attempt)
                    .map_or(now, |reader| reader.since);
                let writes = self
                    .write
                    .as_ref()
                    .is_some_and(|(owner, _)| owner == ran.arg(5));
                let fresh = ran.number(3) == Some(1) && !writes && !upgradable;
                let (first, came) = &self.first;
                let held_back = self.queue.first().is_some_and(|it| it.writes);
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
        let attempt = ran.arg(6);
        match ran.verdict() {
            "busy" => self.queues(ran, now, true),
            "granted" => {
                self.leave(attempt);
                let until = now + ran.arg(3).parse::<u64>().unwrap_or(0);
                // An attempt asks again about a hold that it has, if a message may be lost. The
                // token is that of the hold then.
                let token = ran.number(4).unwrap_or(0);
                if ran.number(3) != Some(1) || token == self.token {
                    self.lasts(until);
                    return None;
                }
                return self.begins(ran.arg(5).to_owned(), token, until);
            }
            _ => {}
        }
        None
    }

    /// Handles a grant that a script has made on behalf of a waiter.
    fn given(&mut self, ran: &Ran<'_>) -> Option<String> {
        let given = ran.given().next()?;
        let owner = self.leave(given.attempt).unwrap_or_default();
        let starved = self.begins(owner, given.token, given.ends);
        self.given = Some(given.attempt.to_owned());
        starved
    }

    /// Handles the beginning of a write. Returns a reader that waits too long.
    fn begins(&mut self, owner: String, token: u64, until: u64) -> Option<String> {
        self.write = Some((owner, until));
        self.given = None;
        self.token = token;
        let mut starved = None;
        for (reader, waits) in &mut self.readers {
            waits.writes += 1;
            if waits.writes > MOST {
                let writes = waits.writes;
                starved = Some(format!(
                    "{reader} waits to read, and {writes} writes have begun since"
                ));
            }
        }
        starved
    }

    /// Handles the end or the extension of a hold or a wait.
    fn end(&mut self, ran: &Ran<'_>, now: u64) {
        match (ran.source.name, ran.verdict()) {
            ("rwlock/renew", "renewed") if ran.arg(6) == "w" => {
                self.given = None;
                self.lasts(now + ran.arg(3).parse::<u64>().unwrap_or(0));
            }
            ("rwlock/release", verdict) => {
                let attempt = ran.arg(4);
                self.readers.remove(attempt);
                if !ran.is_bare() {
                    self.leave(attempt);
                }
                let over = verdict == "released" && ran.number(3) == Some(0);
                if ran.arg(7) == "w" && over {
                    self.ends(now);
                }
            }
            ("rwlock/withdraw", _) => {
                let (channel, numbers) = ran.withdrawn(3).unwrap_or_default();
                let client = channel.rsplit(':').next().unwrap_or_default();
                for number in numbers {
                    let attempt = format!("{client}:{number}");
                    self.readers.remove(&attempt);
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

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.readers.is_empty() && self.write.is_none()
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

    fn queues(&mut self, ran: &Ran<'_>, now: u64, writes: bool) {
        if self.registers(ran, now) && entered(ran) {
            let attempt = ran.arg(6);
            self.leave(attempt);
            self.queue.push(Writer {
                attempt: attempt.to_owned(),
                owner: ran.arg(5).to_owned(),
                writes,
            });
        }
    }

    /// Removes an attempt from the queue. Returns its owner.
    fn leave(&mut self, attempt: &str) -> Option<String> {
        let at = self.queue.iter().position(|it| it.attempt == attempt)?;
        Some(self.queue.remove(at).owner)
    }

    /// Tells whether a busy reply has registered the waiter. If so, its client counts as alive.
    fn registers(&mut self, ran: &Ran<'_>, now: u64) -> bool {
        let Ok(span) = ran.arg(7).parse::<u64>() else {
            return false;
        };
        let client = client(ran.arg(6)).to_owned();
        self.alive.insert(client, now + span);
        true
    }
}

/// Checks that a reader's token is that of the last write. It covers every write that was granted
/// before, and no later write. Records per name the token of the last write that the server
/// granted.
#[derive(Debug)]
pub(super) struct Freshness {
    pub(super) last: Vec<u64>,
}

impl Checker for Freshness {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Some((ran, name, _)) = event.ran() else {
            return;
        };
        if view.conditions.loses_writes || view.conditions.expects_trouble {
            return;
        }
        let last = &mut self.last[name];
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

fn entered(ran: &Ran<'_>) -> bool {
    ran.number(6) == Some(1)
}

/// The number of writes that may begin while a reader waits.
const MOST: u32 = 1;
