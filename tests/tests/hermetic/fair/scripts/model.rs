//! What a fair lock is, written down once more: the plain lock's model of holds, and a queue.

use std::collections::BTreeMap;

use super::NAME;
use crate::scripts::{
    bed::{Acquire, Release, key, optional},
    model::Lock,
};

/// One name.
#[derive(Clone, Debug, Default)]
pub(super) struct Fair {
    pub(super) lock: Lock,
    /// Tickets and addresses, in order.
    pub(super) queue: Vec<(u64, String)>,
    /// Until when clients count as alive.
    pub(super) lives: BTreeMap<String, u64>,
    /// Until when anybody may wait.
    pub(super) flag: Option<u64>,
    /// Who was called last, and until when it may take its time.
    pub(super) called: Option<(u64, String)>,
    /// What is published.
    pub(super) calls: Vec<(String, String)>,
    /// The part of the reply about a grant to a waiter.
    pub(super) report: Vec<String>,
}

/// How long somebody who is called may take to come, in ms.
const GRACE: u64 = 5_000;

/// By how much the flag outlasts the registration that sets it, in ms.
const RESERVE: u64 = 100;

/// Returns the client of an owner or an attempt.
pub(super) fn client_of(owner: &str) -> &str {
    owner.split(':').next().unwrap()
}

impl Fair {
    /// Answers an acquire that comes in time, as the script does.
    pub(super) fn acquire(&mut self, now: u64, micros: u64, call: &Acquire<'_>) -> Vec<String> {
        let placed = self.queue.iter().any(|(_, who)| *who == call.address);
        let known = placed || self.lock.holds(now, call.owner, call.attempt);
        if self.lock.spent.refuses(call.attempt, now) && !known {
            return words(now, &["void"]);
        }
        let held = self
            .lock
            .live(now)
            .map(|hold| (hold.owner.clone(), hold.until));
        let mut place = None;
        match held {
            Some((holder, until)) if holder != call.owner => {
                self.refuse(now, call);
                return self.wait_for(now, micros, call, &holder, until);
            }
            None if self.flag > Some(now) => {
                self.touch(now, call);
                match self.head(now) {
                    Some((head, alive)) if head != call.address => {
                        self.refuse(now, call);
                        return self.wait_behind(now, micros, call, &head, alive);
                    }
                    Some(_) => place = Some("1".to_owned()),
                    None => {}
                }
            }
            Some(_) if self.lock.hold.as_ref().is_some_and(|hold| hold.unconfirmed) => {
                place = Some("1".to_owned());
                self.touch(now, call);
            }
            _ => {}
        }
        if self.flag.is_some() {
            self.queue.retain(|(_, address)| *address != call.address);
        }
        let lock = &mut self.lock;
        let granted = lock.grant(now, micros, call.owner, call.attempt, (call.by, call.lease));
        let mut reply = words(now, &["granted"]);
        reply.extend(granted.words());
        reply.extend(place);
        reply
    }

    /// Ends what an attempt has; returns what the lock's model says.
    pub(super) fn release(
        &mut self,
        now: u64,
        micros: u64,
        call: &Release<'_>,
    ) -> (&'static str, usize) {
        let flagged = self.flag.is_some();
        let ended = self
            .lock
            .release(now, call.owner, call.attempt, call.void, call.tokens[0]);
        self.queue.retain(|(_, address)| *address != call.address);
        if self.lock.live(now).is_none() {
            if flagged {
                self.wake(now, micros, Some(call.owner));
            }
        } else if ended.0 != "released" {
            let unheard = self.unheard(now, call.owner).cloned();
            self.report =
                unheard.map_or_else(Vec::new, |attempt| vec!["holds".to_owned(), attempt]);
        }
        ended
    }

    /// Gives the lock to the first who is alive, if it has ordered that, and else calls it. The
    /// client of `asker` hears of a grant from the reply.
    pub(super) fn wake(&mut self, now: u64, micros: u64, asker: Option<&str>) {
        match self.head(now) {
            Some((head, _)) if self.is_called(&head) => {}
            Some((head, _)) => {
                if !self.give(now, micros, &head, asker) {
                    self.call(now, &head);
                }
            }
            None => {
                self.flag = None;
                self.called = None;
                self.lives.clear();
            }
        }
    }

    fn is_called(&self, head: &str) -> bool {
        self.called.as_ref().is_some_and(|(_, who)| who == head)
    }

    fn give(&mut self, now: u64, micros: u64, head: &str, asker: Option<&str>) -> bool {
        let Some((attempt, grant)) = self.lock.give(now, micros, head) else {
            return false;
        };
        self.called = None;
        self.queue.retain(|(_, who)| who != head);
        let (of, n) = attempt.split_once(':').unwrap();
        if asker.map(client_of) != Some(of) {
            let message = format!("{} {n} {grant}", key(NAME));
            self.calls.push((client(head).to_owned(), message));
        }
        self.report = vec!["granted".to_owned(), attempt, grant];
        true
    }

    /// Returns the attempt that holds without knowing, if it is of `asker`'s client.
    fn unheard(&self, now: u64, asker: &str) -> Option<&String> {
        let attempt = self.lock.unheard(now);
        attempt.filter(|attempt| client_of(attempt) == client_of(asker))
    }

    fn last(&self) -> String {
        optional(self.lock.last_token)
    }

    /// The key is gone.
    pub(super) fn forget(&mut self) {
        self.lock.forget();
        self.flag = None;
        self.called = None;
    }

    /// Records an attempt that ends with a busy answer.
    fn refuse(&mut self, now: u64, call: &Acquire<'_>) {
        if call.address.is_empty() {
            self.lock.spent.record(call.attempt, call.by, now);
        }
    }

    fn wait_for(
        &mut self,
        now: u64,
        micros: u64,
        call: &Acquire<'_>,
        holder: &str,
        until: u64,
    ) -> Vec<String> {
        self.touch(now, call);
        let entered = self.enter(micros, call);
        let look = match self.head(now) {
            Some((head, alive))
                if !call.address.is_empty() && client(&head) != client(call.address) =>
            {
                self.before(now, client(call.address), alive)
                    .map(|before| before.max(until) - now)
            }
            _ => Some(until - now),
        };
        let look = optional(look);
        // A waiter that has just come hears nothing of it.
        let unheard = self.unheard(now, call.owner).filter(|_| entered == "0");
        let unheard = unheard.map_or("", |attempt| attempt.split_once(':').unwrap().1);
        let last = self.last();
        words(now, &["busy", "1", &look, holder, unheard, entered, &last])
    }

    fn wait_behind(
        &mut self,
        now: u64,
        micros: u64,
        call: &Acquire<'_>,
        head: &str,
        alive: u64,
    ) -> Vec<String> {
        let entered = self.enter(micros, call);
        let called = self.called.as_ref().is_some_and(|(_, who)| who == head);
        let alive = if called {
            alive
        } else {
            alive.min(now + GRACE)
        };
        self.call(now, head);
        let mut ring = String::new();
        let look = if call.address.is_empty() {
            Some(alive)
        } else if client(head) == client(call.address) {
            ring = head.split(' ').nth(2).unwrap().to_owned();
            Some(alive)
        } else {
            self.before(now, client(call.address), alive)
        };
        let look = optional(look.map(|look| look - now));
        words(now, &["busy", "1", &look, "", &ring, entered, &self.last()])
    }

    fn touch(&mut self, now: u64, call: &Acquire<'_>) {
        if let Some(register) = call.register {
            let (client, alive) = (client(call.address), now + register);
            if self.flag <= Some(alive) {
                self.flag = Some(alive + RESERVE);
            }
            self.lives.insert(client.to_owned(), alive);
        }
    }

    fn enter(&mut self, micros: u64, call: &Acquire<'_>) -> &'static str {
        let known = self.queue.iter().any(|(_, who)| *who == call.address);
        if call.register.is_none() || known {
            return "0";
        }
        let last = self.queue.last().map_or(0, |(ticket, _)| ticket + 1);
        self.queue.push((micros.max(last), call.address.to_owned()));
        self.called = self.called.take().filter(|(_, who)| *who != call.address);
        "1"
    }

    fn call(&mut self, now: u64, head: &str) {
        if self.called.as_ref().is_some_and(|(_, who)| who == head) {
            return;
        }
        self.called = Some((now + GRACE, head.to_owned()));
        let mut parts = head.split(' ');
        let (verb, channel, n) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
        if verb != Some("NONE") {
            self.calls
                .push((channel.to_owned(), format!("{} {n}", key(NAME))));
        }
    }

    /// The first who is alive, and until when; the dead before it are gone.
    fn head(&mut self, now: u64) -> Option<(String, u64)> {
        while let Some((_, first)) = self.queue.first() {
            let mut alive = self.lives.get(client(first)).copied().unwrap_or(0);
            if let Some((patience, _)) = self.called.as_ref().filter(|(_, who)| who == first) {
                alive = alive.min(*patience);
            }
            if alive > now {
                return Some((first.clone(), alive));
            }
            self.queue.remove(0);
        }
        None
    }

    /// Until when anybody in front of `own` and among the first 16 counts as alive, the head until
    /// `alive`; who is further behind looks if few live.
    fn before(&self, now: u64, own: &str, alive: u64) -> Option<u64> {
        let first = self.queue.iter().position(|(_, who)| client(who) == own);
        let first = first.unwrap_or(self.queue.len());
        let living = self.lives.values().filter(|&&until| until > now).count();
        if first == 0 || first > 15 && living > 16 {
            return None;
        }
        let ahead = self.queue[1..first.min(16)].iter();
        let lives = ahead.filter_map(|(_, who)| self.lives.get(client(who)));
        Some(lives.copied().max().unwrap_or(0).max(alive))
    }
}

/// A client by its channel.
pub(super) fn client(address: &str) -> &str {
    address.split(' ').nth(1).unwrap_or_default()
}

pub(super) fn words(now: u64, items: &[&str]) -> Vec<String> {
    let head = std::iter::once(now.to_string());
    head.chain(items.iter().map(|&item| item.to_owned()))
        .collect()
}
