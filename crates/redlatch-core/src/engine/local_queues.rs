//! The local queues. For each name, one waiter of this client at a time sends requests to the
//! server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::{
    Error,
    base::{
        primitive::Side,
        rules::{Rule, Rules},
        sync::{Mutex, MutexGuard, lock},
    },
    net::CalledBy,
    protocol::{
        grant::Notice,
        name::Key,
        small_map::SmallMap,
        time::Moment,
        turn::TurnQueue,
        waiter::{Contact, Prompt, QueueView, Turn},
    },
};

/// The local queues of a client, one for each side of a name that has waiters.
#[derive(Debug)]
pub(crate) struct LocalQueues {
    pub(super) rules: Rules,
    names: Mutex<BTreeMap<Key, Sides>>,
    uncontended: Mutex<BTreeSet<(Key, &'static str)>>,
}

/// The queues for the sides of a name, by [`Side`]. A queue exists while it has a waiter.
type Sides = [Option<SharedQueue>; 2];

/// A queue. Each of its waiters keeps a reference to it. Code that locks the table of names and a
/// queue locks the table first.
type SharedQueue = Arc<Mutex<LocalQueue>>;

#[derive(Debug, Default)]
struct LocalQueue {
    turns: TurnQueue,
    waiters: SmallMap<u64, Waiter>,
    /// The time of the server's last answer to a waiter of this queue, or the time at which the
    /// queue began.
    heard: Moment,
    /// Whether the server has answered a waiter of this queue at last, or the error for which the
    /// waiter in front got no answer. `None` before the first answer.
    answer: Option<Result<(), Error>>,
}

/// One waiter of a queue.
#[derive(Debug)]
struct Waiter {
    notify: Arc<Notify>,
    owner: u64,
    /// The attempt that it sends now. A waiter that starts over has a new attempt.
    attempt: u64,
    called_by: CalledBy,
    /// The strongest prompt of another waiter of the queue since the last look.
    prompt: Option<Prompt>,
    /// The last grant to this attempt that the reply of a local release has reported.
    grant: Option<Notice>,
}

/// A waiter's place in a queue. Dropping it passes the turn on.
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
    /// Creates an empty table.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            names: Mutex::default(),
            uncontended: Mutex::default(),
        }
    }

    /// Adds a waiter for a side of `key`, which sends `attempt` of `owner`.
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
            prompt: None,
            grant: None,
        };
        let mut names = self.names();
        let sides = names.entry(key.clone()).or_default();
        let queue = sides[side as usize].get_or_insert_with(|| {
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

    /// Records that `owner` holds `key`, so its waiters need not queue. `granted` is the attempt of
    /// the latest grant, if this call reports one.
    pub(crate) fn owner_holds(&self, key: &Key, owner: u64, granted: Option<u64>) {
        for queue in self.sides(key) {
            let mut queue = lock(&queue);
            // In most cases the only waiter is the one that was just granted and is about to leave.
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

    /// Records that `owner` no longer holds `key`.
    pub(crate) fn owner_released(&self, key: &Key, owner: u64) {
        for queue in self.sides(key) {
            lock(&queue).turns.owner_released(owner);
        }
    }

    /// Returns the address of the first waiter of `owner` for the exclusive side of `key`.
    pub(crate) fn address(&self, key: &Key, owner: u64) -> Option<String> {
        self.exclusive(key, |queue| {
            let mut waiters = queue.waiters.values();
            let first = waiters.find(|waiter| waiter.owner == owner)?;
            Some(first.called_by.address(first.attempt))
        })?
    }

    /// Returns the first waiter for the exclusive side of `key`, with its address.
    pub(super) fn first(&self, key: &Key) -> Option<(u64, String)> {
        self.exclusive(key, |queue| {
            let id = queue.turns.front()?;
            let waiter = queue.waiters.get(&id)?;
            Some((id, waiter.called_by.address(waiter.attempt)))
        })?
    }

    /// Tells a waiter for the exclusive side of `key` that its turn at the server has come, if it
    /// still waits.
    pub(super) fn prompt(&self, key: &Key, id: u64) {
        if self.rules.keeps(Rule::PromptNextWaiter) {
            self.exclusive(key, |queue| queue.prompt(id, Prompt::Retry));
        }
    }

    /// Tells whether a waiter of this client for the exclusive side of `key` is notified by
    /// `channel`.
    pub(super) fn is_ours(&self, key: &Key, channel: &str) -> bool {
        let ours = |waiter: &Waiter| *waiter.called_by.wakes.channel == *channel;
        let any = self.exclusive(key, |queue| queue.waiters.values().any(ours));
        any.unwrap_or_default()
    }

    /// Tells whether a waiter for `key` sends `attempt`.
    pub(super) fn waits(&self, key: &Key, attempt: u64) -> bool {
        let mut sides = self.sides(key);
        sides.any(|queue| lock(&queue).asking_with(attempt).is_some())
    }

    /// Tells the waiter for `key` that sends `attempt` that its turn at the server has come, and
    /// hands it the `grant` if it has one. Returns `false` if there is no such waiter.
    pub(super) fn pass_on(&self, key: &Key, attempt: u64, grant: Option<Notice>) -> bool {
        self.sides(key).any(|queue| {
            let mut queue = lock(&queue);
            let Some(id) = queue.asking_with(attempt) else {
                return false;
            };
            if let (Some(_), Some(waiter)) = (grant, queue.waiters.get_mut(&id)) {
                waiter.grant = grant;
            }
            queue.prompt(id, Prompt::Retry);
            true
        })
    }

    /// Returns all names that have waiters.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.names().keys().cloned().collect()
    }

    /// Makes the first waiter of each side of `key` ask the server. Returns `false` if there is
    /// none.
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

    /// Removes an object of this kind from those for which no other client waited at this client's
    /// last release. Returns whether it was one.
    pub(super) fn take_uncontended(&self, key: &Key, kind: &'static str) -> bool {
        let mut objects = lock(&self.uncontended);
        !objects.is_empty() && objects.remove(&(key.clone(), kind))
    }

    /// Records that no other client waited for an object of this kind at this client's last
    /// release.
    pub(super) fn put_uncontended(&self, key: &Key, kind: &'static str) {
        let mut objects = lock(&self.uncontended);
        if objects.len() >= MOST_UNCONTENDED {
            // The next release of each removed object is an ordinary one.
            objects.clear();
        }
        objects.insert((key.clone(), kind));
    }

    /// Tells whether `key` has waiters.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.names().contains_key(key)
    }

    /// Returns the number of queues.
    pub(crate) fn len(&self) -> usize {
        self.names().values().flatten().flatten().count()
    }

    fn sides(&self, key: &Key) -> impl Iterator<Item = SharedQueue> + use<> {
        let sides = self.names().get(key).cloned().unwrap_or_default();
        sides.into_iter().flatten()
    }

    /// Looks at the queue for the exclusive side of `key`, if it has waiters.
    fn exclusive<R>(&self, key: &Key, look: impl FnOnce(&mut LocalQueue) -> R) -> Option<R> {
        let queue = self.names().get(key)?[Side::Exclusive as usize].clone()?;
        let mut queue = lock(&queue);
        Some(look(&mut queue))
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<Key, Sides>> {
        lock(&self.names)
    }
}

impl LocalQueue {
    fn notify(&self, id: u64) {
        if let Some(waiter) = self.waiters.get(&id) {
            waiter.notify.notify_one();
        }
    }

    /// Prompts a waiter, if it still waits.
    fn prompt(&mut self, id: u64, prompt: Prompt) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.prompt = waiter.prompt.max(Some(prompt));
            waiter.notify.notify_one();
        }
    }

    /// Returns the waiter that sends `attempt`.
    fn asking_with(&self, attempt: u64) -> Option<u64> {
        // A waiter's id is the number of its first attempt, and few waiters start over.
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
    /// Returns the state of the queue, and takes the prompt for this waiter. Clears an earlier
    /// notification.
    pub(crate) fn look(&self) -> (QueueView, Option<Prompt>) {
        // A change after this line may be missing in the view below, but it notifies this waiter
        // again.
        let _ = self.notify.notified().now_or_never();
        self.with(|queue| {
            let view = QueueView {
                turn: if queue.turns.may_speak(self.id) {
                    Turn::Ours
                } else {
                    Turn::Others
                },
                heard: queue.heard,
                contact: match queue.answer {
                    Some(Err(_)) => Contact::Failing,
                    Some(Ok(())) => Contact::Answered,
                    None => Contact::Awaited,
                },
                first_back_at: queue.turns.front_back_at(),
            };
            let waiter = queue.waiters.get_mut(&self.id);
            (view, waiter.and_then(|waiter| waiter.prompt.take()))
        })
    }

    /// Waits until this waiter is notified of a change.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }

    /// Records that this waiter sends another attempt from now on.
    pub(crate) fn asks_with(&self, attempt: u64, called_by: &CalledBy) {
        self.with(|queue| {
            if let Some(waiter) = queue.waiters.get_mut(&self.id) {
                waiter.attempt = attempt;
                waiter.called_by = called_by.clone();
                waiter.grant = None;
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

    /// Takes the prompt that another waiter of the queue has left for this waiter.
    pub(crate) fn take_prompt(&self) -> Option<Prompt> {
        self.with(|queue| queue.waiters.get_mut(&self.id)?.prompt.take())
    }

    /// Takes the grant that the reply of a local release has reported for this waiter.
    pub(crate) fn take_grant(&self) -> Option<Notice> {
        self.with(|queue| queue.waiters.get_mut(&self.id)?.grant.take())
    }

    /// Records the latest time at which this waiter asks again.
    pub(crate) fn expect(&self, back_at: Moment) {
        self.with(|queue| queue.turns.expect(self.id, back_at));
    }

    /// Moves the first waiter to the end of the queue if it is overdue by more than `patience`.
    pub(crate) fn challenge(&self, now: Moment, patience: Duration) {
        self.with(|queue| {
            if let Some(next) = queue.turns.challenge(now, patience) {
                queue.notify(next);
            }
        });
    }

    /// Records that the server answered.
    pub(crate) fn heard(&self, now: Moment) {
        self.with(|queue| {
            queue.heard = now;
            queue.answer = Some(Ok(()));
        });
    }

    /// Records that the server did not answer.
    pub(crate) fn troubled(&self, error: &Error) {
        self.with(|queue| queue.answer = Some(Err(error.clone())));
    }

    /// Returns the error for which the waiter in front got no answer.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.with(|queue| queue.answer.clone()?.err())
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
        if let Some(next) = queue.turns.leave(self.id)
            && self.queues.rules.keeps(Rule::PassTurn)
        {
            queue.notify(next);
        }
        // No waiter can join between these steps, since the table of names is locked.
        if queue.turns.is_empty()
            && let Some(sides) = names.get_mut(&self.key)
        {
            sides[self.side as usize] = None;
            if sides.iter().all(Option::is_none) {
                names.remove(&self.key);
            }
        }
    }
}

/// The maximum number of uncontended objects. An object whose last hold was lost is never taken, so
/// the table needs a limit.
const MOST_UNCONTENDED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::name::key;

    #[test]
    fn a_name_is_taken_once_and_their_number_is_bounded() {
        let key = |n: usize| key(&format!("name-{n}"));
        let queues = LocalQueues::new(Rules::default());
        queues.put_uncontended(&key(0), "lock");
        assert!(!queues.take_uncontended(&key(0), "semaphore"));
        assert!(queues.take_uncontended(&key(0), "lock"));
        assert!(!queues.take_uncontended(&key(0), "lock"));
        for n in 0..=MOST_UNCONTENDED {
            queues.put_uncontended(&key(n), "lock");
        }
        assert!(lock(&queues.uncontended).len() <= MOST_UNCONTENDED);
        assert!(queues.take_uncontended(&key(MOST_UNCONTENDED), "lock"));
    }
}
