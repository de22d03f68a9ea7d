//! The local queues: per name, one waiter of this client speaks to the server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::succession::Lone;
use crate::{
    Error,
    net::CalledBy,
    primitive::Side,
    protocol::{
        name::Key,
        small_map::SmallMap,
        time::Moment,
        turn::TurnQueue,
        waiter::{Contact, Prompt, QueueView, Turn},
    },
    rules::{Rule, Rules},
    sync::lock,
};

/// The local queues of a client, one for each side of a name that somebody waits for.
#[derive(Debug)]
pub(crate) struct Turns {
    rules: Rules,
    names: Mutex<BTreeMap<Key, Lines>>,
    lone: Lone,
}

/// The lines for the two sides of a name; there is a line while somebody is in it.
#[derive(Clone, Debug, Default)]
struct Lines {
    exclusive: Option<SharedLine>,
    shared: Option<SharedLine>,
}

/// Whoever is in a line has it at hand, and asks nobody for it. Locked behind the table of names, if both are.
type SharedLine = Arc<Mutex<Line>>;

#[derive(Debug, Default)]
struct Line {
    queue: TurnQueue,
    waiters: SmallMap<u64, Waiter>,
    /// Waiters whom another of the line has told to ask.
    called: BTreeMap<u64, Prompt>,
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
    called_by: CalledBy,
}

/// A place in a line. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Place {
    turns: Arc<Turns>,
    key: Key,
    side: Side,
    line: SharedLine,
    id: u64,
    bell: Arc<Notify>,
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

    /// Queues `attempt` of `owner` for a side of `key`.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: &Key,
        side: Side,
        attempt: u64,
        owner: u64,
        called_by: &CalledBy,
        now: Moment,
    ) -> Place {
        let id = attempt;
        let bell = Arc::new(Notify::new());
        let waiter = Waiter {
            bell: Arc::clone(&bell),
            owner,
            attempt,
            called_by: called_by.clone(),
        };
        let mut names = self.names();
        let lines = names.entry(key.clone()).or_default();
        let line = lines.side(side).get_or_insert_with(|| {
            Arc::new(Mutex::new(Line {
                heard: now,
                ..Line::default()
            }))
        });
        let line = Arc::clone(line);
        let mut joined = lock(&line);
        drop(names);
        joined.queue.join(id, owner);
        joined.waiters.insert(id, waiter);
        drop(joined);
        Place {
            turns: Arc::clone(self),
            key: key.clone(),
            side,
            line,
            id,
            bell,
        }
    }

    /// `owner` holds `key`, by the grant of `granted` if that is its latest: its waiters need not queue.
    pub(crate) fn excuse(&self, key: &Key, owner: u64, granted: Option<u64>) {
        for line in self.lines(key) {
            let mut line = lock(&line);
            // Mostly nobody is there but who has just been granted, and goes.
            if line.waiters.len() == 1 && granted.is_some_and(|one| line.asking_with(one).is_some())
            {
                continue;
            }
            for id in line.queue.excuse(owner) {
                line.ring(id);
            }
        }
    }

    /// `owner` holds `key` no longer.
    pub(crate) fn unexcuse(&self, key: &Key, owner: u64) {
        for line in self.lines(key) {
            lock(&line).queue.unexcuse(owner);
        }
    }

    /// Returns the address of the waiter of `owner` that came first to have `key` for itself.
    pub(crate) fn address(&self, key: &Key, owner: u64) -> Option<String> {
        let line = self.exclusive(key)?;
        let line = lock(&line);
        let mut waiters = line.waiters.values();
        let first = waiters.find(|waiter| waiter.owner == owner)?;
        Some(first.address())
    }

    /// Returns the first of those who wait to have `key` for themselves, and its address.
    pub(super) fn first(&self, key: &Key) -> Option<(u64, String)> {
        let line = self.exclusive(key)?;
        let line = lock(&line);
        let id = line.queue.front()?;
        Some((id, line.waiters.get(&id)?.address()))
    }

    /// Tells a waiter that its turn at the server has come, if it waits.
    pub(super) fn call(&self, key: &Key, id: u64) {
        if !self.rules.keeps(Rule::CallSuccessor) {
            return;
        }
        if let Some(line) = self.exclusive(key) {
            let mut line = lock(&line);
            if line.waiters.get(&id).is_some() {
                line.call(id, Prompt::Retry);
            }
        }
    }

    /// Tells whether whoever is called by `channel` waits here for `key`.
    pub(super) fn is_ours(&self, key: &Key, channel: &str) -> bool {
        self.exclusive(key).is_some_and(|line| {
            let line = lock(&line);
            let mut waiters = line.waiters.values();
            waiters.any(|waiter| **waiter.called_by.wakes.channel() == *channel)
        })
    }

    /// Tells whether a waiter for `key` asks with `attempt`.
    pub(super) fn waits(&self, key: &Key, attempt: u64) -> bool {
        let mut lines = self.lines(key);
        lines.any(|line| lock(&line).asking_with(attempt).is_some())
    }

    /// Tells the waiter for `key` that asks with `attempt` that its turn at the server has come; `false` if there is none.
    pub(super) fn pass_on(&self, key: &Key, attempt: u64) -> bool {
        self.lines(key).any(|line| {
            let mut line = lock(&line);
            let waiter = line.asking_with(attempt);
            if let Some(id) = waiter {
                line.call(id, Prompt::Retry);
            }
            waiter.is_some()
        })
    }

    /// Returns all names that somebody waits for.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.names().keys().cloned().collect()
    }

    /// Makes the first waiters for `key` ask the server; `false` if nobody waits.
    pub(super) fn prompt(&self, key: &Key) -> bool {
        let mut waits = false;
        for line in self.lines(key) {
            let mut line = lock(&line);
            if let Some(first) = line.queue.front() {
                line.call(first, Prompt::Retry);
                waits = true;
            }
        }
        waits
    }

    /// Returns the names for which nobody else waits.
    pub(super) const fn lone(&self) -> &Lone {
        &self.lone
    }

    /// Tells whether somebody waits for `key`.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.names().contains_key(key)
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        let names = self.names();
        let sides = |lines: &Lines| {
            [&lines.exclusive, &lines.shared]
                .into_iter()
                .flatten()
                .count()
        };
        names.values().map(sides).sum()
    }

    fn lines(&self, key: &Key) -> impl Iterator<Item = SharedLine> + use<> {
        let lines = self.names().get(key).cloned().unwrap_or_default();
        [lines.exclusive, lines.shared].into_iter().flatten()
    }

    fn exclusive(&self, key: &Key) -> Option<SharedLine> {
        self.names().get(key)?.exclusive.clone()
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<Key, Lines>> {
        lock(&self.names)
    }
}

impl Waiter {
    fn address(&self) -> String {
        self.called_by.address(self.attempt)
    }
}

impl Lines {
    const fn side(&mut self, side: Side) -> &mut Option<SharedLine> {
        match side {
            Side::Exclusive => &mut self.exclusive,
            Side::Shared => &mut self.shared,
        }
    }

    const fn is_empty(&self) -> bool {
        self.exclusive.is_none() && self.shared.is_none()
    }
}

impl Line {
    fn ring(&self, id: u64) {
        if let Some(waiter) = self.waiters.get(&id) {
            waiter.bell.notify_one();
        }
    }

    fn call(&mut self, id: u64, prompt: Prompt) {
        let told = self.called.entry(id).or_insert(prompt);
        *told = prompt.max(*told);
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
    /// Returns how the line stands, and what another of it has told this waiter, once. Forgets a bell
    /// that has rung.
    pub(crate) fn look(&self) -> (QueueView, Option<Prompt>) {
        // What rings from now on is not in what is seen below.
        let _ = self.bell.notified().now_or_never();
        self.with(|line| {
            let view = QueueView {
                turn: if line.queue.may_speak(self.id) {
                    Turn::Ours
                } else {
                    Turn::Others
                },
                heard: line.heard,
                contact: match (&line.trouble, line.answered) {
                    (Some(_), _) => Contact::Failing,
                    (None, true) => Contact::Answered,
                    (None, false) => Contact::Awaited,
                },
                first_back_at: line.queue.front_back_at(),
            };
            (view, line.called.remove(&self.id))
        })
    }

    /// Waits until something about this place has changed.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Notes that this waiter asks with another attempt from now on.
    pub(crate) fn asks_with(&self, attempt: u64, called_by: &CalledBy) {
        self.with(|line| {
            if let Some(waiter) = line.waiters.get_mut(&self.id) {
                waiter.attempt = attempt;
                waiter.called_by = called_by.clone();
            }
        });
    }

    /// Makes every other waiter of this line ask the server.
    pub(crate) fn call_all(&self, prompt: Prompt) {
        self.with(|line| {
            let others: Vec<_> = line.waiters.iter().map(|(&id, _)| id).collect();
            for id in others.into_iter().filter(|&id| id != self.id) {
                line.call(id, prompt);
            }
        });
    }

    /// Returns what another of the line has told this waiter. Tells it once.
    pub(crate) fn take_prompt(&self) -> Option<Prompt> {
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

    /// Returns what keeps the one who speaks from getting an answer.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.with(|line| line.trouble.clone())
    }

    fn with<R>(&self, look: impl FnOnce(&mut Line) -> R) -> R {
        look(&mut lock(&self.line))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut names = self.turns.names();
        let mut line = lock(&self.line);
        line.waiters.remove(&self.id);
        line.called.remove(&self.id);
        if let Some(next) = line.queue.leave(self.id)
            && self.turns.rules.keeps(Rule::PassTurn)
        {
            line.ring(next);
        }
        // Nobody joins between these, since the table of names is locked.
        if line.queue.is_empty()
            && let Some(lines) = names.get_mut(&self.key)
        {
            *lines.side(self.side) = None;
            if lines.is_empty() {
                names.remove(&self.key);
            }
        }
    }
}
