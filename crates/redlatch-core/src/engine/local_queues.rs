//! The local queues: per name, one waiter of this client speaks to the server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::local_handoff::Uncontended;
use crate::{
    Error,
    base::{
        primitive::Side,
        rules::{Rule, Rules},
        sync::lock,
    },
    net::CalledBy,
    protocol::{
        name::Key,
        small_map::SmallMap,
        time::Moment,
        turn::TurnQueue,
        waiter::{Contact, Prompt, QueueView, Turn},
    },
};

/// The local queues of a client, one for each side of a name that somebody waits for.
#[derive(Debug)]
pub(crate) struct LocalQueues {
    rules: Rules,
    names: Mutex<BTreeMap<Key, Sides>>,
    uncontended: Uncontended,
}

/// The queues for the two sides of a name. There is a queue while a waiter is in it.
#[derive(Clone, Debug, Default)]
struct Sides {
    exclusive: Option<SharedQueue>,
    shared: Option<SharedQueue>,
}

/// Each waiter keeps a reference to its queue. If both are locked, the table of names comes first.
type SharedQueue = Arc<Mutex<LocalQueue>>;

#[derive(Debug, Default)]
struct LocalQueue {
    turns: TurnQueue,
    waiters: SmallMap<u64, Waiter>,
    /// Waiters whom another of the queue has told to ask.
    prompts: BTreeMap<u64, Prompt>,
    /// When the server last answered somebody in this queue, or the queue began.
    heard: Moment,
    /// The server has answered somebody in this queue.
    answered: bool,
    /// What keeps the one who speaks from getting an answer.
    trouble: Option<Error>,
}

/// One waiter of a queue.
#[derive(Debug)]
struct Waiter {
    notify: Arc<Notify>,
    owner: u64,
    /// The attempt that it asks with, another one once it had to start over.
    attempt: u64,
    called_by: CalledBy,
}

/// A place in a queue. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    queues: Arc<LocalQueues>,
    key: Key,
    side: Side,
    queue: SharedQueue,
    id: u64,
    notify: Arc<Notify>,
}

impl LocalQueues {
    /// Starts without queues.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            names: Mutex::default(),
            uncontended: Uncontended::default(),
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
    ) -> QueueSlot {
        let id = attempt;
        let notify = Arc::new(Notify::new());
        let waiter = Waiter {
            notify: Arc::clone(&notify),
            owner,
            attempt,
            called_by: called_by.clone(),
        };
        let mut names = self.names();
        let sides = names.entry(key.clone()).or_default();
        let queue = sides.side(side).get_or_insert_with(|| {
            Arc::new(Mutex::new(LocalQueue {
                heard: now,
                ..LocalQueue::default()
            }))
        });
        let queue = Arc::clone(queue);
        let mut joined = lock(&queue);
        drop(names);
        joined.turns.join(id, owner);
        joined.waiters.insert(id, waiter);
        drop(joined);
        QueueSlot {
            queues: Arc::clone(self),
            key: key.clone(),
            side,
            queue,
            id,
            notify,
        }
    }

    /// `owner` holds `key`, by the grant of `granted` if that is its latest: its waiters need not
    /// queue.
    pub(crate) fn owner_holds(&self, key: &Key, owner: u64, granted: Option<u64>) {
        for queue in self.sides(key) {
            let mut queue = lock(&queue);
            // Mostly nobody is there but who has just been granted, and goes.
            if queue.waiters.len() == 1
                && granted.is_some_and(|one| queue.asking_with(one).is_some())
            {
                continue;
            }
            for id in queue.turns.owner_holds(owner) {
                queue.notify(id);
            }
        }
    }

    /// `owner` holds `key` no longer.
    pub(crate) fn owner_released(&self, key: &Key, owner: u64) {
        for queue in self.sides(key) {
            lock(&queue).turns.owner_released(owner);
        }
    }

    /// Returns the address of the waiter of `owner` that came first to have `key` for itself.
    pub(crate) fn address(&self, key: &Key, owner: u64) -> Option<String> {
        let queue = self.exclusive(key)?;
        let queue = lock(&queue);
        let mut waiters = queue.waiters.values();
        let first = waiters.find(|waiter| waiter.owner == owner)?;
        Some(first.address())
    }

    /// Returns the first of those who wait to have `key` for themselves, and its address.
    pub(super) fn first(&self, key: &Key) -> Option<(u64, String)> {
        let queue = self.exclusive(key)?;
        let queue = lock(&queue);
        let id = queue.turns.front()?;
        Some((id, queue.waiters.get(&id)?.address()))
    }

    /// Tells a waiter that its turn at the server has come, if it waits.
    pub(super) fn prompt(&self, key: &Key, id: u64) {
        if !self.rules.keeps(Rule::CallSuccessor) {
            return;
        }
        if let Some(queue) = self.exclusive(key) {
            let mut queue = lock(&queue);
            if queue.waiters.get(&id).is_some() {
                queue.prompt(id, Prompt::Retry);
            }
        }
    }

    /// Tells whether a waiter of this client for `key` is notified by `channel`.
    pub(super) fn is_ours(&self, key: &Key, channel: &str) -> bool {
        self.exclusive(key).is_some_and(|queue| {
            let queue = lock(&queue);
            let mut waiters = queue.waiters.values();
            waiters.any(|waiter| **waiter.called_by.wakes.channel() == *channel)
        })
    }

    /// Tells whether a waiter for `key` asks with `attempt`.
    pub(super) fn waits(&self, key: &Key, attempt: u64) -> bool {
        let mut sides = self.sides(key);
        sides.any(|queue| lock(&queue).asking_with(attempt).is_some())
    }

    /// Tells the waiter for `key` that asks with `attempt` that its turn at the server has come;
    /// `false` if there is none.
    pub(super) fn pass_on(&self, key: &Key, attempt: u64) -> bool {
        self.sides(key).any(|queue| {
            let mut queue = lock(&queue);
            let waiter = queue.asking_with(attempt);
            if let Some(id) = waiter {
                queue.prompt(id, Prompt::Retry);
            }
            waiter.is_some()
        })
    }

    /// Returns all names that somebody waits for.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.names().keys().cloned().collect()
    }

    /// Makes the first waiters for `key` ask the server; `false` if nobody waits.
    pub(super) fn prompt_first(&self, key: &Key) -> bool {
        let mut waits = false;
        for queue in self.sides(key) {
            let mut queue = lock(&queue);
            if let Some(first) = queue.turns.front() {
                queue.prompt(first, Prompt::Retry);
                waits = true;
            }
        }
        waits
    }

    /// Returns the names for which nobody else waits.
    pub(super) const fn uncontended(&self) -> &Uncontended {
        &self.uncontended
    }

    /// Tells whether somebody waits for `key`.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.names().contains_key(key)
    }

    /// Returns the number of queues.
    pub(crate) fn len(&self) -> usize {
        let names = self.names();
        let sides = |sides: &Sides| {
            [&sides.exclusive, &sides.shared]
                .into_iter()
                .flatten()
                .count()
        };
        names.values().map(sides).sum()
    }

    fn sides(&self, key: &Key) -> impl Iterator<Item = SharedQueue> + use<> {
        let sides = self.names().get(key).cloned().unwrap_or_default();
        [sides.exclusive, sides.shared].into_iter().flatten()
    }

    fn exclusive(&self, key: &Key) -> Option<SharedQueue> {
        self.names().get(key)?.exclusive.clone()
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<Key, Sides>> {
        lock(&self.names)
    }
}

impl Waiter {
    fn address(&self) -> String {
        self.called_by.address(self.attempt)
    }
}

impl Sides {
    const fn side(&mut self, side: Side) -> &mut Option<SharedQueue> {
        match side {
            Side::Exclusive => &mut self.exclusive,
            Side::Shared => &mut self.shared,
        }
    }

    const fn is_empty(&self) -> bool {
        self.exclusive.is_none() && self.shared.is_none()
    }
}

impl LocalQueue {
    fn notify(&self, id: u64) {
        if let Some(waiter) = self.waiters.get(&id) {
            waiter.notify.notify_one();
        }
    }

    fn prompt(&mut self, id: u64, prompt: Prompt) {
        let told = self.prompts.entry(id).or_insert(prompt);
        *told = prompt.max(*told);
        self.notify(id);
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

impl QueueSlot {
    /// Returns how the queue stands, and what another waiter has told this one, once. Drops a
    /// notification from before.
    pub(crate) fn look(&self) -> (QueueView, Option<Prompt>) {
        // A change from now on may not be in what is seen below, and notifies again.
        let _ = self.notify.notified().now_or_never();
        self.with(|queue| {
            let view = QueueView {
                turn: if queue.turns.may_speak(self.id) {
                    Turn::Ours
                } else {
                    Turn::Others
                },
                heard: queue.heard,
                contact: match (&queue.trouble, queue.answered) {
                    (Some(_), _) => Contact::Failing,
                    (None, true) => Contact::Answered,
                    (None, false) => Contact::Awaited,
                },
                first_back_at: queue.turns.front_back_at(),
            };
            (view, queue.prompts.remove(&self.id))
        })
    }

    /// Waits until something about this place has changed.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }

    /// Notes that this waiter asks with another attempt from now on.
    pub(crate) fn asks_with(&self, attempt: u64, called_by: &CalledBy) {
        self.with(|queue| {
            if let Some(waiter) = queue.waiters.get_mut(&self.id) {
                waiter.attempt = attempt;
                waiter.called_by = called_by.clone();
            }
        });
    }

    /// Makes every other waiter of this queue ask the server.
    pub(crate) fn prompt_others(&self, prompt: Prompt) {
        self.with(|queue| {
            let others: Vec<_> = queue.waiters.iter().map(|(&id, _)| id).collect();
            for id in others.into_iter().filter(|&id| id != self.id) {
                queue.prompt(id, prompt);
            }
        });
    }

    /// Returns what another of the queue has told this waiter. Tells it once.
    pub(crate) fn take_prompt(&self) -> Option<Prompt> {
        self.with(|queue| queue.prompts.remove(&self.id))
    }

    /// Notes that this waiter looks again at `back_at` at the latest.
    pub(crate) fn expect(&self, back_at: Moment) {
        self.with(|queue| queue.turns.expect(self.id, back_at));
    }

    /// Sends a first waiter that is so much later than it said to the end.
    pub(crate) fn challenge(&self, now: Moment, patience: Duration) {
        self.with(|queue| {
            if let Some(next) = queue.turns.challenge(now, patience) {
                queue.notify(next);
            }
        });
    }

    /// The server answered.
    pub(crate) fn heard(&self, now: Moment) {
        self.with(|queue| {
            queue.heard = now;
            queue.answered = true;
            queue.trouble = None;
        });
    }

    /// The server did not answer.
    pub(crate) fn troubled(&self, error: &Error) {
        self.with(|queue| queue.trouble = Some(error.clone()));
    }

    /// Returns what keeps the one who speaks from getting an answer.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.with(|queue| queue.trouble.clone())
    }

    fn with<R>(&self, look: impl FnOnce(&mut LocalQueue) -> R) -> R {
        look(&mut lock(&self.queue))
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut names = self.queues.names();
        let mut queue = lock(&self.queue);
        queue.waiters.remove(&self.id);
        queue.prompts.remove(&self.id);
        if let Some(next) = queue.turns.leave(self.id)
            && self.queues.rules.keeps(Rule::PassTurn)
        {
            queue.notify(next);
        }
        // Nobody joins between these, since the table of names is locked.
        if queue.turns.is_empty()
            && let Some(sides) = names.get_mut(&self.key)
        {
            *sides.side(self.side) = None;
            if sides.is_empty() {
                names.remove(&self.key);
            }
        }
    }
}
