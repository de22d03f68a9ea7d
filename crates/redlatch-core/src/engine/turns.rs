//! The local queues: per name, one waiter of this client speaks to the server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::succession::Lone;
use crate::{
    Error,
    primitive::Side,
    protocol::{acquisition::RECHECK, name::Key, time::Moment, turn::TurnQueue},
    rules::{Rule, Rules},
};

/// The local queues of a client, one per name that somebody waits for.
#[derive(Debug)]
pub(crate) struct Turns {
    rules: Rules,
    names: Mutex<BTreeMap<(Key, Side), Line>>,
    lone: Lone,
}

#[derive(Debug, Default)]
struct Line {
    queue: TurnQueue,
    waiters: BTreeMap<u64, Waiter>,
    /// Waiters whom another of the line has told to ask.
    called: BTreeMap<u64, Call>,
    /// When the server last answered somebody in this line, or the line began.
    heard: Moment,
    /// The server has answered somebody in this line.
    answered: bool,
    /// What keeps the one who speaks from getting an answer.
    trouble: Option<Error>,
}

/// One waiter of a line.
#[derive(Debug)]
struct Waiter {
    bell: Arc<Notify>,
    owner: u64,
    /// The attempt that it asks with, another one once it had to start over.
    attempt: u64,
    address: String,
}

/// A place in a line. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Place {
    turns: Arc<Turns>,
    key: (Key, Side),
    id: u64,
    bell: Arc<Notify>,
}

/// What another of its line has told a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    /// Its place at the server may be lost: to ask for a new one when the client's pace allows.
    Again,
    /// Its turn has come: to ask at once.
    Now,
}

/// What those who spoke to the server about a name have heard.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// When it last answered, or the line began.
    pub(crate) heard: Moment,
    /// It has answered at all.
    pub(crate) answered: bool,
    /// What keeps it from answering.
    pub(crate) trouble: Option<Error>,
}

impl Turns {
    /// Starts without queues.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            names: Mutex::default(),
            lone: Lone::default(),
        }
    }

    /// Queues `attempt` of `owner`, to be called at `address`, for a side of `key`.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: &Key,
        side: Side,
        attempt: u64,
        owner: u64,
        address: &str,
        now: Moment,
    ) -> Place {
        let id = attempt;
        let bell = Arc::new(Notify::new());
        let mut names = self.names();
        let key = (key.clone(), side);
        let line = names.entry(key.clone()).or_insert_with(|| Line {
            heard: now,
            ..Line::default()
        });
        line.queue.join(id, owner);
        let waiter = Waiter {
            bell: Arc::clone(&bell),
            owner,
            attempt,
            address: address.to_owned(),
        };
        line.waiters.insert(id, waiter);
        Place {
            turns: Arc::clone(self),
            key,
            id,
            bell,
        }
    }

    /// `owner` has come to hold `key`: its waiters need not queue.
    pub(crate) fn excuse(&self, key: &Key, owner: u64) {
        let mut names = self.names();
        for side in SIDES {
            if let Some(line) = names.get_mut(&(key.clone(), side)) {
                for id in line.queue.excuse(owner) {
                    line.ring(id);
                }
            }
        }
    }

    /// `owner` holds `key` no longer.
    pub(crate) fn unexcuse(&self, key: &Key, owner: u64) {
        let mut names = self.names();
        for side in SIDES {
            if let Some(line) = names.get_mut(&(key.clone(), side)) {
                line.queue.unexcuse(owner);
            }
        }
    }

    /// Returns the address of the waiter of `owner` that came first to have `key` for itself.
    pub(crate) fn address(&self, key: &Key, owner: u64) -> Option<String> {
        let names = self.names();
        let line = names.get(&(key.clone(), Side::Exclusive))?;
        let mut waiters = line.waiters.values();
        let first = waiters.find(|waiter| waiter.owner == owner)?;
        Some(first.address.clone())
    }

    /// Returns the first of those who wait to have `key` for themselves, and its address.
    pub(super) fn first(&self, key: &Key) -> Option<(u64, String)> {
        let names = self.names();
        let line = names.get(&(key.clone(), Side::Exclusive))?;
        let id = line.queue.front()?;
        let address = line.waiters.get(&id)?.address.clone();
        Some((id, address))
    }

    /// Tells a waiter that its turn at the server has come, if it waits.
    pub(super) fn call(&self, key: &Key, id: u64) {
        if !self.rules.keeps(Rule::CallSuccessor) {
            return;
        }
        let mut names = self.names();
        let line = names.get_mut(&(key.clone(), Side::Exclusive));
        if let Some(line) = line.filter(|line| line.waiters.contains_key(&id)) {
            line.call(id, Call::Now);
        }
    }

    /// Tells whether whoever is called by `channel` waits here for `key`.
    pub(super) fn is_ours(&self, key: &Key, channel: &str) -> bool {
        let names = self.names();
        let line = names.get(&(key.clone(), Side::Exclusive));
        line.is_some_and(|line| {
            let mut waiters = line.waiters.values();
            waiters.any(|waiter| waiter.address.split(' ').nth(1) == Some(channel))
        })
    }

    /// Returns the names for which nobody else waits.
    pub(super) const fn lone(&self) -> &Lone {
        &self.lone
    }

    /// Tells whether somebody waits for `key`.
    pub(crate) fn has(&self, key: &Key) -> bool {
        let names = self.names();
        SIDES
            .into_iter()
            .any(|side| names.contains_key(&(key.clone(), side)))
    }

    /// Returns the number of names that somebody waits for.
    pub(crate) fn len(&self) -> usize {
        self.names().len()
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<(Key, Side), Line>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn ring(&self, id: u64) {
        if let Some(waiter) = self.waiters.get(&id) {
            waiter.bell.notify_one();
        }
    }

    fn call(&mut self, id: u64, call: Call) {
        let told = self.called.entry(id).or_insert(call);
        *told = call.max(*told);
        self.ring(id);
    }

    /// Returns the waiter that asks with `attempt`.
    fn asking_with(&self, attempt: u64) -> Option<u64> {
        // Nearly nobody ever starts over.
        if let Some(waiter) = self.waiters.get(&attempt) {
            return (waiter.attempt == attempt).then_some(attempt);
        }
        let mut waiters = self.waiters.iter();
        waiters
            .find(|(_, waiter)| waiter.attempt == attempt)
            .map(|(&id, _)| id)
    }
}

impl Place {
    /// Tells whether this waiter may speak.
    pub(crate) fn may_speak(&self) -> bool {
        self.with(|line| line.queue.may_speak(self.id))
    }

    /// Waits until something about this place has changed.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Forgets a bell that has rung: whoever speaks next looks anyway.
    pub(crate) fn hush(&self) {
        let _ = self.bell.notified().now_or_never();
    }

    /// Notes that this waiter asks with another attempt from now on.
    pub(crate) fn asks_with(&self, attempt: u64, address: &str) {
        self.with(|line| {
            if let Some(waiter) = line.waiters.get_mut(&self.id) {
                waiter.attempt = attempt;
                waiter.address = address.to_owned();
            }
        });
    }

    /// Tells the waiter of this line that asks with `attempt` that its turn at the server has come.
    pub(crate) fn call(&self, attempt: u64) {
        self.with(|line| {
            if let Some(id) = line.asking_with(attempt).filter(|&id| id != self.id) {
                line.call(id, Call::Now);
            }
        });
    }

    /// Makes every other waiter of this line ask the server.
    pub(crate) fn call_all(&self, call: Call) {
        self.with(|line| {
            let others: Vec<_> = line.waiters.keys().copied().collect();
            for id in others.into_iter().filter(|&id| id != self.id) {
                line.call(id, call);
            }
        });
    }

    /// Returns what another of the line has told this waiter. Tells it once.
    pub(crate) fn take_call(&self) -> Option<Call> {
        self.with(|line| line.called.remove(&self.id))
    }

    /// Notes that this waiter looks again at `back_at` at the latest.
    pub(crate) fn expect(&self, back_at: Moment) {
        self.with(|line| line.queue.expect(self.id, back_at));
    }

    /// Sends a first waiter that is so much later than it said to the end.
    pub(crate) fn challenge(&self, now: Moment, patience: Duration) {
        self.with(|line| {
            if let Some(next) = line.queue.challenge(now, patience) {
                line.ring(next);
            }
        });
    }

    /// Returns when the first waiter is late by `patience`, if it has said when it will be back.
    pub(crate) fn challenge_at(&self, patience: Duration) -> Option<Moment> {
        self.with(|line| line.queue.challenge_at(patience))
    }

    /// The server answered.
    pub(crate) fn heard(&self, now: Moment) {
        self.with(|line| {
            line.heard = now;
            line.answered = true;
            line.trouble = None;
        });
    }

    /// The server did not answer.
    pub(crate) fn troubled(&self, error: &Error) {
        self.with(|line| line.trouble = Some(error.clone()));
    }

    /// Returns what is known of the server's answers about this name.
    pub(crate) fn news(&self) -> News {
        self.with(|line| News {
            heard: line.heard,
            answered: line.answered,
            trouble: line.trouble.clone(),
        })
    }

    fn with<R: Default>(&self, look: impl FnOnce(&mut Line) -> R) -> R {
        self.turns
            .names()
            .get_mut(&self.key)
            .map(look)
            .unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut names = self.turns.names();
        let Some(line) = names.get_mut(&self.key) else {
            return;
        };
        line.waiters.remove(&self.id);
        line.called.remove(&self.id);
        if let Some(next) = line.queue.leave(self.id)
            && self.turns.rules.keeps(Rule::PassTurn)
        {
            line.ring(next);
        }
        if line.queue.is_empty() {
            names.remove(&self.key);
        }
    }
}

const SIDES: [Side; 2] = [Side::Exclusive, Side::Shared];

/// A first waiter that is so much later than it said has a future that nobody polls.
pub(crate) const OVERDUE: Duration = RECHECK;
