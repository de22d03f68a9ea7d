//! What only the fair lock promises: whoever is granted, nobody who is alive came before.

use std::collections::BTreeMap;

use redlatch_core::runtime::Value;

use crate::{
    names::label,
    scripts::Ran,
    watch::{Checker, Event, Record, View},
};

/// The queues as the answers of the server make them, and who of them may be passed over.
#[derive(Debug)]
pub(super) struct Order {
    names: Vec<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Addresses in order of arrival.
    waiters: Vec<String>,
    /// Until when clients count as alive, by their channels, in ms of the server.
    alive: BTreeMap<String, u64>,
    /// When the present hold ends, or the last one ended, in ms of the server.
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
        let (Some(name), Some(now)) = (ran.name(), ran.item(1).and_then(number)) else {
            return;
        };
        let queue = &mut self.names[name];
        match ran.source.name {
            "fair/acquire" => {
                if let Some(passed) = queue.acquired(ran, now) {
                    let (who, name) = (ran.arg(3), label(name));
                    let what =
                        format!("attempt {who} is granted {name} before {passed}, who came first");
                    record.violate("order", view.now, what);
                }
            }
            "fair/release" => {
                let left = ran.item(3).and_then(number);
                if ran.verdict() == "released" && left == Some(0) {
                    queue.until = now;
                }
                queue.waiters.retain(|waiter| waiter != ran.arg(5));
                if queue.until <= now {
                    queue.forget_the_dead(now);
                }
            }
            "fair/withdraw" => queue.withdrawn(ran),
            "fair/renew" if ran.verdict() == "renewed" => {
                let lease: u64 = ran.arg(3).parse().unwrap_or(0);
                queue.until = queue.until.max(now + lease);
            }
            _ => {}
        }
    }
}

impl Queue {
    /// Takes an acquire in; returns who was passed over by it and should not have been.
    fn acquired(&mut self, ran: &Ran<'_>, now: u64) -> Option<String> {
        let address = ran.arg(7);
        let lease: u64 = ran.arg(4).parse().unwrap_or(0);
        let registers = ran.arg(6).parse::<u64>();
        match ran.verdict() {
            "busy" => {
                if let Ok(register) = registers {
                    self.lives(address, now + register);
                }
                self.forget_the_dead(now);
                if ran.item(7).and_then(number) == Some(1) {
                    self.waiters.retain(|waiter| waiter != address);
                    self.waiters.push(address.to_owned());
                }
                None
            }
            "granted" => {
                if let (Ok(register), Some(1)) = (registers, ran.item(7).and_then(number)) {
                    self.lives(address, now + register);
                }
                let first = ran.item(3).and_then(number) == Some(1);
                // A copy of an answer that was lost takes nothing.
                let taken = self.until <= now;
                if first && taken {
                    self.forget_the_dead(now);
                }
                let passed = self.waiters.iter().position(|waiter| waiter == address);
                let before = &self.waiters[..passed.unwrap_or(self.waiters.len())];
                // Who was called may have been passed over, once that is long enough ago; nobody is
                // called before the name is free.
                let wronged = before
                    .iter()
                    .find(|waiter| self.alive.get(channel(waiter)) > Some(&now))
                    .filter(|_| first && taken && now < self.until + GRACE)
                    .cloned();
                if first && taken {
                    // Whoever was passed over has lost its place.
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

    /// Takes note of waiters that their client has withdrawn.
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

    /// Whoever looks takes the dead at the front out; should they live after all, they come again.
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

fn channel(address: &str) -> &str {
    address.split(' ').nth(1).unwrap_or_default()
}

fn number(value: &Value) -> Option<u64> {
    value.as_int().and_then(|number| u64::try_from(number).ok())
}

/// How long somebody who was called may take to come, in ms.
const GRACE: u64 = 5_000;
