//! The additional promise of the fair lock: a grant passes over no earlier waiter that is alive.

use std::collections::BTreeMap;

use crate::{
    names::label,
    scripts::Ran,
    watch::{Checker, Event, Record, View},
};

/// The queues as the replies of the server imply them.
#[derive(Debug)]
pub(super) struct Order {
    names: Vec<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The addresses in order of arrival.
    waiters: Vec<String>,
    /// Per channel of a client: until when it counts as alive, in ms of the server.
    alive: BTreeMap<String, u64>,
    /// The end of the current or the last hold, in ms of the server.
    until: u64,
}

impl Order {
    pub(super) fn new(names: usize) -> Self {
        Self {
            names: (0..names).map(|_| Queue::default()).collect(),
        }
    }
}

impl Checker for Order {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Ran { ran, .. } = event else {
            return;
        };
        let conditions = &view.conditions;
        if conditions.expects_trouble || conditions.loses_writes || conditions.forced {
            return;
        }
        let (Some(name), Some(now)) = (ran.name(), ran.number(1)) else {
            return;
        };
        let queue = &mut self.names[name];
        match ran.source.name {
            "fair/acquire" => {
                if let Some(passed) = queue.acquired(ran, now) {
                    let (who, name) = (ran.arg(7), label(name));
                    let what =
                        format!("attempt {who} is granted {name} before {passed}, who came first");
                    record.violate("order", view.now, what);
                }
            }
            "fair/release" => {
                let left = ran.number(3);
                if ran.verdict() == "released" && left == Some(0) {
                    queue.until = now;
                }
                let gone = |waiter: &str| waiter == ran.arg(6) && !ran.is_bare();
                queue.waiters.retain(|waiter| !gone(waiter));
                if queue.until <= now {
                    queue.forget_the_dead(now);
                }
                queue.given(ran, now, 4, view.now, record);
            }
            "fair/force" => queue.given(ran, now, 3, view.now, record),
            "fair/withdraw" => {
                queue.withdrawn(ran);
                queue.given(ran, now, 3, view.now, record);
            }
            "fair/renew" if ran.verdict() == "renewed" => {
                let lease: u64 = ran.arg(3).parse().unwrap_or(0);
                queue.until = queue.until.max(now + lease);
            }
            _ => {}
        }
    }
}

impl Queue {
    /// Handles an acquire. Returns a waiter that was wrongly passed over.
    fn acquired(&mut self, ran: &Ran<'_>, now: u64) -> Option<String> {
        let address = ran.arg(9);
        let lease: u64 = ran.arg(3).parse().unwrap_or(0);
        let registers = ran.arg(8).parse::<u64>();
        match ran.verdict() {
            "busy" => {
                if let Ok(register) = registers {
                    self.lives(address, now + register);
                }
                self.forget_the_dead(now);
                if ran.number(7) == Some(1) {
                    self.waiters.retain(|waiter| waiter != address);
                    self.waiters.push(address.to_owned());
                }
                None
            }
            "granted" => {
                if let (Ok(register), Some(1)) = (registers, ran.number(7)) {
                    self.lives(address, now + register);
                }
                let first = ran.number(3) == Some(1);
                // A grant during the current hold repeats a lost reply and does not take the name.
                let taken = self.until <= now;
                if first && taken {
                    self.forget_the_dead(now);
                }
                let passed = self.waiters.iter().position(|waiter| waiter == address);
                let before = &self.waiters[..passed.unwrap_or(self.waiters.len())];
                // A notified waiter may be passed over if it does not respond in time. No waiter is
                // notified before the name is free.
                let wronged = before
                    .iter()
                    .find(|waiter| self.alive.get(channel(waiter)) > Some(&now))
                    .filter(|_| first && taken && now < self.until + GRACE)
                    .cloned();
                if first && taken {
                    // Waiters that were passed over have lost their places.
                    let gone = passed.unwrap_or(self.waiters.len());
                    self.waiters.drain(..gone);
                }
                self.waiters.retain(|waiter| waiter != address);
                self.until = self.until.max(now + lease);
                wronged
            }
            _ => None,
        }
    }

    /// Handles a grant that a script has made on behalf of a waiter; item `at` of its reply tells
    /// of one.
    fn given(&mut self, ran: &Ran<'_>, now: u64, at: usize, view_now: u64, record: &mut Record) {
        if ran.text(at) != Some("granted") {
            return;
        }
        let (client, n) = ran
            .text(at + 1)
            .and_then(|attempt| attempt.split_once(':'))
            .unwrap_or_default();
        let is_it = |waiter: &String| {
            waiter.split(' ').nth(2) == Some(n) && channel(waiter).contains(client)
        };
        self.forget_the_dead(now);
        let place = self.waiters.iter().position(is_it);
        let before = &self.waiters[..place.unwrap_or(self.waiters.len())];
        let alive = |waiter: &&String| self.alive.get(channel(waiter)) > Some(&now);
        if let Some(passed) = before.iter().find(alive)
            && now < self.until + GRACE
        {
            let what = format!("attempt {client}:{n} is given the name before {passed}");
            record.violate("order", view_now, what);
        }
        self.waiters.drain(..place.map_or(0, |place| place + 1));
        let ends = ran.text(at + 2).and_then(|grant| grant.split('.').nth(2));
        self.until = ends.and_then(|ends| ends.parse().ok()).unwrap_or(now);
    }

    /// Handles waiters that their client has withdrawn.
    fn withdrawn(&mut self, ran: &Ran<'_>) {
        let Some((client, numbers)) = ran.withdrawn(3) else {
            return;
        };
        let gone = |waiter: &String| {
            let number = waiter.split(' ').nth(2).unwrap_or_default();
            channel(waiter) == client && numbers.contains(&number)
        };
        self.waiters.retain(|waiter| !gone(waiter));
    }

    fn lives(&mut self, address: &str, until: u64) {
        self.alive.insert(channel(address).to_owned(), until);
    }

    /// Removes dead waiters at the front of the queue, as every script does that inspects it. If
    /// they are alive after all, they register again.
    fn forget_the_dead(&mut self, now: u64) {
        let alive = |waiter: &String| self.alive.get(channel(waiter)) > Some(&now);
        let dead = self
            .waiters
            .iter()
            .take_while(|waiter| !alive(waiter))
            .count();
        self.waiters.drain(..dead);
    }
}

/// Returns the channel of a waiter's client, without the shard that may follow.
fn channel(address: &str) -> &str {
    let channel = address.split(' ').nth(1).unwrap_or_default();
    channel.split('{').next().unwrap_or_default()
}

/// The time in ms within which a notified waiter must respond.
const GRACE: u64 = 5_000;
