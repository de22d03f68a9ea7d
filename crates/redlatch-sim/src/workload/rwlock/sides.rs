//! Neither side starves. A reader that waits lets one write go first at most; one that came after
//! the first of the waiting writers goes before it only if a write has ended meanwhile.
//!
//! Read from the answers of the server, by its clock, in runs where messages arrive.

use std::collections::BTreeMap;

use redlatch_core::runtime::Value;

use crate::{
    names::label,
    scripts::Ran,
    watch::{Checker, Event, Record, View},
};

/// Who waits for each name.
#[derive(Debug)]
pub(super) struct Sides {
    names: Vec<Lines>,
}

/// Who waits for one name. Times are the server's, in ms.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// By attempt.
    readers: BTreeMap<String, Reader>,
    /// Attempts to write or to read upgradably, in order of arrival, and whether they want to
    /// write.
    queue: Vec<(String, bool)>,
    /// The first of the queue, and since when it is.
    first: (String, u64),
    /// Until when clients count as alive.
    alive: BTreeMap<String, u64>,
    /// Who writes, and until when.
    write: Option<(String, u64)>,
    /// When a write last ended.
    ended: u64,
}

#[derive(Clone, Debug)]
struct Reader {
    since: u64,
    /// Writes that have begun since.
    writes: u32,
}

impl Sides {
    pub(super) fn new(names: usize) -> Self {
        Self {
            names: vec![Lines::default(); names],
        }
    }
}

impl Checker for Sides {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Ran { ran, .. } = *event else {
            return;
        };
        let (Some(name), Some(now)) = (ran.name(), ran.item(1).and_then(number)) else {
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
                None
            }
        };
        lines.settle(now);
        if let Some(what) = broken {
            record.violate("sides", view.now, format!("{}: {what}", label(name)));
        }
    }
}

impl Lines {
    /// Ends what has ended by itself.
    fn pass(&mut self, now: u64) {
        if let Some((_, until)) = self.write.take_if(|(_, until)| *until <= now) {
            self.ended = until;
        }
        let alive = &self.alive;
        let lives = |attempt: &str| alive.get(client(attempt)).is_some_and(|&until| until > now);
        self.readers.retain(|attempt, _| lives(attempt));
        self.queue.retain(|(attempt, _)| lives(attempt));
        self.settle(now);
    }

    fn settle(&mut self, now: u64) {
        let first = self.queue.first().map_or("", |(attempt, _)| attempt);
        if first != self.first.0 {
            self.first = (first.to_owned(), now);
        }
    }

    fn read(&mut self, ran: &Ran<'_>, now: u64) -> Option<String> {
        let (attempt, upgradable) = (ran.arg(3), ran.arg(8) == "u");
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
                self.queue.retain(|(other, _)| other != attempt);
                let since = self
                    .readers
                    .remove(attempt)
                    .map_or(now, |reader| reader.since);
                let writes = self
                    .write
                    .as_ref()
                    .is_some_and(|(owner, _)| owner == ran.arg(2));
                let fresh = ran.item(3).and_then(number) == Some(1) && !writes && !upgradable;
                let (first, came) = &self.first;
                let held_back = self.queue.first().is_some_and(|(_, writes)| *writes);
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
        let attempt = ran.arg(3);
        match ran.verdict() {
            "busy" => self.queues(ran, now, true),
            "granted" => {
                self.queue.retain(|(other, _)| other != attempt);
                let until = now + ran.arg(4).parse::<u64>().unwrap_or(0);
                if ran.item(3).and_then(number) != Some(1) {
                    self.lasts(until);
                    return None;
                }
                self.write = Some((ran.arg(2).to_owned(), until));
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
                return starved;
            }
            _ => {}
        }
        None
    }

    /// Takes note of what ends or prolongs a hold or a wait.
    fn end(&mut self, ran: &Ran<'_>, now: u64) {
        match (ran.source.name, ran.verdict()) {
            ("rwlock/renew", "renewed") if ran.arg(5) == "w" => {
                self.lasts(now + ran.arg(3).parse::<u64>().unwrap_or(0));
            }
            ("rwlock/release", verdict) => {
                let attempt = ran.arg(2);
                self.readers.remove(attempt);
                self.queue.retain(|(other, _)| other != attempt);
                let over = verdict == "released" && ran.item(3).and_then(number) == Some(0);
                if ran.arg(6) == "w" && over {
                    self.write = None;
                    self.ended = now;
                }
            }
            ("rwlock/withdraw", _) => {
                let (channel, numbers) = ran.withdrawn(5).unwrap_or_default();
                let client = channel.rsplit(':').next().unwrap_or_default();
                for number in numbers {
                    let attempt = format!("{client}:{number}");
                    self.readers.remove(&attempt);
                    self.queue.retain(|(other, _)| *other != attempt);
                }
            }
            // Others of the writer's attempts may go on; nobody comes in while they do.
            ("rwlock/downgrade", "granted") => self.ended = now,
            ("rwlock/force", "done") if ran.arg(1) == "w" && ran.arg(4) == "now" => {
                self.write = None;
                self.ended = now;
            }
            _ => {}
        }
    }

    fn lasts(&mut self, until: u64) {
        if let Some((_, known)) = &mut self.write {
            *known = until.max(*known);
        }
    }

    fn queues(&mut self, ran: &Ran<'_>, now: u64, writes: bool) {
        if self.registers(ran, now) && entered(ran) {
            let attempt = ran.arg(3);
            self.queue.retain(|(other, _)| other != attempt);
            self.queue.push((attempt.to_owned(), writes));
        }
    }

    /// Tells whether a busy answer has registered the waiter, whose client counts as alive by that.
    fn registers(&mut self, ran: &Ran<'_>, now: u64) -> bool {
        let Ok(span) = ran.arg(6).parse::<u64>() else {
            return false;
        };
        let client = client(ran.arg(3)).to_owned();
        self.alive.insert(client, now + span);
        true
    }
}

fn client(attempt: &str) -> &str {
    attempt.split(':').next().unwrap_or_default()
}

fn entered(ran: &Ran<'_>) -> bool {
    ran.item(6).and_then(number) == Some(1)
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => other.as_str()?.parse().ok(),
    }
}

/// Writes that may begin while a reader waits.
const MOST: u32 = 1;
