//! The local queues. For each kind and name, one waiter of this client at a time asks the server
//! again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    Error,
    base::{
        primitive::{Primitive, Side},
        rules::{Rule, Rules},
        sync::{Mutex, MutexGuard, lock},
    },
    net::{Bell, CalledBy, Callees},
    protocol::{
        grant::Notice,
        name::{Key, Prefix},
        small_map::SmallMap,
        time::Moment,
        turn::TurnQueue,
        waiter::{Contact, Discipline, Prompt, QueueView, Turn},
    },
};

/// The local queues of a client, one for each kind and side of a name that has waiters.
#[derive(Debug)]
pub(crate) struct LocalQueues {
    pub(super) rules: Rules,
    prefix: Prefix,
    places: Mutex<BTreeMap<Place, SharedQueue>>,
    uncontended: Mutex<BTreeSet<(Key, &'static str)>>,
}

/// What the waiters of a queue wait for: a kind of object under a key, and a side of it. A waiter
/// of another kind has to learn from the server that the key is in use.
type Place = (Key, &'static str, Side);

/// A queue. Each of its waiters keeps a reference to it. Code that locks the table of places and a
/// queue locks the table first.
type SharedQueue = Arc<Mutex<LocalQueue>>;

#[derive(Debug, Default)]
struct LocalQueue {
    turns: TurnQueue,
    waiters: SmallMap<u64, Waiter>,
    /// The waiters whose attempts have other numbers than they, by these numbers. A waiter's id is
    /// the number of its first attempt.
    renumbered: BTreeMap<u64, u64>,
    /// The waiters that messages for any waiter of the name are for, since they have no places on
    /// the server.
    barging: SmallMap<u64, ()>,
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
    bell: Arc<Bell>,
    owner: u64,
    /// The attempt that it sends now. A waiter that starts over has a new attempt.
    attempt: u64,
    called_by: CalledBy,
    /// How messages of the server name it; `None` before it has subscribed.
    listens: Option<Discipline>,
}

/// A waiter's place in a queue. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    queues: Arc<LocalQueues>,
    place: Place,
    queue: SharedQueue,
    id: u64,
}

impl LocalQueues {
    /// Creates an empty table for names under `prefix`.
    pub(crate) fn new(rules: Rules, prefix: Prefix) -> Self {
        Self {
            rules,
            prefix,
            places: Mutex::default(),
            uncontended: Mutex::default(),
        }
    }

    /// Adds a waiter for `place`, which sends `attempt` of `owner`. All that may end its
    /// wait rings `bell`.
    pub(crate) fn join(
        self: &Arc<Self>,
        place: Place,
        (attempt, owner): (u64, u64),
        called_by: &CalledBy,
        bell: &Arc<Bell>,
        now: Moment,
    ) -> QueueSlot {
        let id = attempt;
        let waiter = Waiter {
            bell: Arc::clone(bell),
            owner,
            attempt,
            called_by: called_by.clone(),
            listens: None,
        };
        let mut places = self.places();
        let queue = places.entry(place.clone()).or_insert_with(|| {
            Arc::new(Mutex::new(LocalQueue {
                heard: now,
                ..LocalQueue::default()
            }))
        });
        let queue = Arc::clone(queue);
        let mut joined = lock(&queue);
        drop(places);
        joined.turns.join(id, owner);
        joined.waiters.insert(id, waiter);
        drop(joined);
        QueueSlot {
            queues: Arc::clone(self),
            place,
            queue,
            id,
        }
    }

    /// Records that `owner` holds `key`, so its waiters need not queue. `granted` is the attempt of
    /// the latest grant, if this call reports one.
    pub(crate) fn owner_holds(&self, key: &Key, owner: u64, granted: Option<u64>) {
        for queue in self.queues(key) {
            let mut queue = lock(&queue);
            // In most cases the only waiter is the one that was just granted and is about to leave.
            if queue.waiters.len() == 1
                && granted.is_some_and(|one| queue.asking_with(one).is_some())
            {
                continue;
            }
            for id in queue.turns.owner_holds(owner) {
                queue.moved(id);
            }
        }
    }

    /// Records that `owner` no longer holds `key`.
    pub(crate) fn owner_released(&self, key: &Key, owner: u64) {
        for queue in self.queues(key) {
            lock(&queue).turns.owner_released(owner);
        }
    }

    /// Returns the address of the first waiter of `owner` for `key`, with the owner.
    pub(crate) fn address(&self, key: &Key, owner: u64) -> Option<String> {
        self.queues(key).into_iter().find_map(|queue| {
            let queue = lock(&queue);
            let mut waiters = queue.waiters.values();
            let first = waiters.find(|waiter| waiter.owner == owner)?;
            let address = first.called_by.address(first.attempt);
            Some(address.with(owner).to_string())
        })
    }

    /// Returns the first waiter for `primitive`, the attempt that it sends, and how the server
    /// notifies it.
    pub(super) fn first(&self, primitive: &dyn Primitive) -> Option<(u64, u64, CalledBy)> {
        self.of(primitive, |queue| {
            let id = queue.turns.front()?;
            let waiter = queue.waiters.get(&id)?;
            Some((id, waiter.attempt, waiter.called_by.clone()))
        })?
    }

    /// Tells a waiter for `primitive` that its turn at the server has come, if it still waits.
    pub(super) fn prompt(&self, primitive: &dyn Primitive, id: u64) {
        if self.rules.keeps(Rule::PromptNextWaiter) {
            self.of(primitive, |queue| queue.prompt(id, Prompt::Retry));
        }
    }

    /// Tells whether a waiter of this client for `primitive` is notified by `channel`.
    pub(super) fn is_ours(&self, primitive: &dyn Primitive, channel: &str) -> bool {
        let ours = |waiter: &Waiter| *waiter.called_by.wakes.channel == *channel;
        let any = self.of(primitive, |queue| queue.waiters.values().any(ours));
        any.unwrap_or_default()
    }

    /// Tells whether a waiter for `key` sends `attempt`.
    pub(super) fn waits(&self, key: &Key, attempt: u64) -> bool {
        let mut queues = self.queues(key).into_iter();
        queues.any(|queue| lock(&queue).asking_with(attempt).is_some())
    }

    /// Tells the waiter for `key` that sends `attempt` that its turn at the server has come, and
    /// hands it the `grant` if it has one. Returns `false` if there is no such waiter.
    pub(super) fn pass_on(&self, key: &Key, attempt: u64, grant: Option<Notice>) -> bool {
        self.queues(key).into_iter().any(|queue| {
            let queue = lock(&queue);
            let Some(id) = queue.asking_with(attempt) else {
                return false;
            };
            if let (Some(grant), Some(waiter)) = (grant, queue.waiters.get(&id)) {
                waiter.bell.grants(grant);
            }
            queue.prompt(id, Prompt::Retry);
            true
        })
    }

    /// Returns all names that have waiters.
    pub(super) fn keys(&self) -> Vec<Key> {
        let places = self.places();
        let mut keys: Vec<_> = places.keys().map(|(key, ..)| key.clone()).collect();
        keys.dedup();
        keys
    }

    /// Makes the first waiter of each queue for `key` ask the server. Returns `false` if there is
    /// none.
    pub(super) fn prompt_first(&self, key: &Key) -> bool {
        let mut waits = false;
        for queue in self.queues(key) {
            let queue = lock(&queue);
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
        !self.queues(key).is_empty()
    }

    /// Returns the number of queues.
    pub(crate) fn len(&self) -> usize {
        self.places().len()
    }

    /// Returns the queues for `key`.
    fn queues(&self, key: &Key) -> Vec<SharedQueue> {
        let places = self.places();
        let from = (key.clone(), "", Side::Exclusive);
        let queues = places.range(from..).take_while(|((of, ..), _)| of == key);
        queues.map(|(_, queue)| Arc::clone(queue)).collect()
    }

    /// Looks at the queue for the exclusive side of `primitive`, if it has waiters.
    fn of<R>(
        &self,
        primitive: &dyn Primitive,
        look: impl FnOnce(&mut LocalQueue) -> R,
    ) -> Option<R> {
        let place = (primitive.key().clone(), primitive.kind(), Side::Exclusive);
        let queue = Arc::clone(self.places().get(&place)?);
        let mut queue = lock(&queue);
        Some(look(&mut queue))
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<Place, SharedQueue>> {
        lock(&self.places)
    }
}

/// The messages of the server.
impl LocalQueues {
    /// Rings the waiters with the name `<key>` or `<key> <number of an attempt>`. Returns `false`
    /// if there are none.
    fn call(&self, name: &str, grant: Option<Notice>) -> bool {
        let any = self.ring(name, |queue| queue.waits_for_any(), grant);
        // A key may end with a space and a number.
        let numbered = name.rsplit_once(' ').is_some_and(|(key, number)| {
            let asks = |number| self.ring(key, |queue| queue.listening(number), grant);
            number.parse().is_ok_and(asks)
        });
        any || numbered
    }

    /// Rings those of the waiters for `key` that `of` selects. Returns `false` if there are none.
    fn ring<W: IntoIterator<Item = u64>>(
        &self,
        key: &str,
        of: impl Fn(&LocalQueue) -> W,
        grant: Option<Notice>,
    ) -> bool {
        let Some(key) = Key::read(&self.prefix, key) else {
            return false;
        };
        let mut heard = false;
        for queue in self.queues(&key) {
            let queue = lock(&queue);
            for id in of(&queue) {
                queue.told(id, grant);
                heard = true;
            }
        }
        heard
    }
}

impl Callees for LocalQueues {
    fn called<'a>(&self, says: &'a str) -> Option<&'a str> {
        // A message about a grant names the waiter as any other message does, before its last word.
        // A name may end like such a message.
        if says.is_empty() || self.call(says, None) {
            return None;
        }
        match Notice::split(says) {
            Some((waiter, notice)) => (!self.call(waiter, Some(notice))).then_some(waiter),
            None => Some(says),
        }
    }

    fn missed(&self, channel: &str) {
        let queues: Vec<_> = self.places().values().cloned().collect();
        for queue in queues {
            for waiter in lock(&queue).waiters.values() {
                if waiter.listens.is_some() && *waiter.called_by.wakes.channel == *channel {
                    waiter.bell.ring(|news| news.missed = true);
                }
            }
        }
    }
}

impl LocalQueue {
    /// Returns the waiters that a message for any waiter of the name is for: those without a place
    /// on the server, and the first of the others, which asks for all of them.
    fn waits_for_any(&self) -> Vec<u64> {
        let first = self.turns.front().filter(|&id| self.has_place(id));
        let barging = self.barging.iter().map(|(&id, ())| id);
        barging.chain(first).collect()
    }

    /// Returns the waiter that a message with the number of its attempt is for.
    fn listening(&self, attempt: u64) -> Option<u64> {
        self.asking_with(attempt).filter(|&id| self.has_place(id))
    }

    /// Tells whether messages name the waiter by its place on the server.
    fn has_place(&self, id: u64) -> bool {
        let waiter = self.waiters.get(&id);
        waiter.is_some_and(|waiter| waiter.listens == Some(Discipline::Queued))
    }

    /// Rings for a message to a waiter.
    fn told(&self, id: u64, grant: Option<Notice>) {
        if let Some(Waiter { bell, .. }) = self.waiters.get(&id) {
            if let Some(grant) = grant {
                bell.grants(grant);
            }
            bell.ring(|news| news.message = Some(0));
        }
    }

    /// Rings for a waiter whose place has changed.
    fn moved(&self, id: u64) {
        if let Some(waiter) = self.waiters.get(&id) {
            waiter.bell.ring(|news| news.moved = true);
        }
    }

    /// Prompts a waiter, if it still waits.
    fn prompt(&self, id: u64, prompt: Prompt) {
        if let Some(waiter) = self.waiters.get(&id) {
            waiter
                .bell
                .ring(|news| news.prompt = news.prompt.max(Some(prompt)));
        }
    }

    /// Returns the waiter that sends `attempt`.
    fn asking_with(&self, attempt: u64) -> Option<u64> {
        let renumbered = self.renumbered.get(&attempt).copied();
        renumbered.or_else(|| {
            let waiter = self.waiters.get(&attempt)?;
            (waiter.attempt == attempt).then_some(attempt)
        })
    }
}

impl QueueSlot {
    /// Returns the state of the queue.
    pub(crate) fn look(&self) -> QueueView {
        self.with(|queue| QueueView {
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
        })
    }

    /// Lets the messages for this waiter ring.
    pub(crate) fn listen(&self, discipline: Discipline) {
        self.with(|queue| {
            if let Some(waiter) = queue.waiters.get_mut(&self.id) {
                waiter.listens = Some(discipline);
                if discipline == Discipline::Barging {
                    queue.barging.insert(self.id, ());
                }
            }
        });
    }

    /// Records that this waiter sends another attempt from now on.
    pub(crate) fn asks_with(&self, attempt: u64, called_by: &CalledBy) {
        self.with(|queue| {
            if let Some(waiter) = queue.waiters.get_mut(&self.id) {
                queue.renumbered.remove(&waiter.attempt);
                queue.renumbered.insert(attempt, self.id);
                waiter.attempt = attempt;
                waiter.called_by = called_by.clone();
                // A grant to the old attempt is nothing to the new one.
                waiter.bell.take_grant();
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

    /// Records the latest time at which this waiter asks again.
    pub(crate) fn expect(&self, back_at: Moment) {
        self.with(|queue| queue.turns.expect(self.id, back_at));
    }

    /// Moves the first waiter to the end of the queue if it is overdue by more than `patience`.
    pub(crate) fn challenge(&self, now: Moment, patience: Duration) {
        self.with(|queue| {
            if let Some(next) = queue.turns.challenge(now, patience) {
                queue.moved(next);
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
        let mut places = self.queues.places();
        let mut queue = lock(&self.queue);
        queue.barging.remove(&self.id);
        if let Some(waiter) = queue.waiters.remove(&self.id) {
            queue.renumbered.remove(&waiter.attempt);
        }
        if let Some(next) = queue.turns.leave(self.id)
            && self.queues.rules.keeps(Rule::PassTurn)
        {
            queue.moved(next);
        }
        // No waiter can join between these steps, since the table is locked.
        if queue.turns.is_empty() {
            places.remove(&self.place);
        }
    }
}

/// The maximum number of uncontended objects. An object whose last hold was lost is never taken, so
/// the table needs a limit.
const MOST_UNCONTENDED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, protocol::name::key};

    /// A name may end like the number of an attempt, and like a message about a grant.
    #[tokio::test]
    async fn a_message_rings_the_waiter_that_has_its_name() {
        let client = Client::builder("redis://localhost").connect_lazy().unwrap();
        let queues = Arc::new(LocalQueues::new(Rules::default(), Prefix::default()));
        let called_by = CalledBy {
            wakes: client.wakes(0),
            silent: false,
            order: None,
        };
        let grant = "g00000000000000ab.7.8.1";
        let barging = format!("{{a}} 1 {grant}");
        let waiters = [
            (key("a"), "fair", 1, Discipline::Queued),
            (key("a"), "fair", 2, Discipline::Queued),
            (key(&barging), "lock", 3, Discipline::Barging),
            (key("{a}"), "fair", 4, Discipline::Queued),
            (key("a"), "lock", 5, Discipline::Barging),
        ];
        let waiters = waiters.map(|(key, kind, number, discipline)| {
            let place = (key.clone(), kind, Side::Exclusive);
            let (asks, bell) = ((number, number), Arc::default());
            let slot = queues.join(place, asks, &called_by, &bell, Moment::ORIGIN);
            slot.listen(discipline);
            (slot, bell, key)
        });
        let rung = |says: &str| {
            let stray = queues.called(says).map(ToOwned::to_owned);
            let rung = waiters.iter().map(|(slot, bell, _)| {
                let rung = bell.take(std::mem::take) != Default::default();
                rung.then(|| (slot.id, bell.take_grant().map(|grant| grant.token)))
            });
            (rung.flatten().collect::<Vec<_>>(), stray)
        };
        let [first, _, whole, tagged, _] = waiters.each_ref().map(|(_, _, key)| key.to_string());
        // The first waiter of a queue hears what any waiter may, and so does one without a place.
        assert_eq!(rung(&first), (vec![(1, None), (5, None)], None));
        assert_eq!(rung(&format!("{first} 2")), (vec![(2, None)], None));
        let says = format!("{first} 2 {grant}");
        assert_eq!(rung(&says), (vec![(2, Some(7))], None));
        let gone = format!("{first} 9");
        assert_eq!(rung(&gone), (vec![], Some(gone.clone())));
        assert_eq!(rung(&format!("{gone} {grant}")), (vec![], Some(gone)));
        assert_eq!(rung(&whole), (vec![(3, None)], None));
        assert_eq!(rung(&format!("{tagged} 4")), (vec![(4, None)], None));
        assert_eq!(rung(""), (vec![], None));
        assert_eq!(rung("b 1"), (vec![], Some("b 1".to_owned())));
        queues.missed("another channel");
        assert_eq!(rung(""), (vec![], None));
        queues.missed(&called_by.wakes.channel);
        assert_eq!(rung("").0.len(), 5);
    }

    #[test]
    fn a_name_is_taken_once_and_their_number_is_bounded() {
        let key = |n: usize| key(&format!("name-{n}"));
        let queues = LocalQueues::new(Rules::default(), Prefix::default());
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
