//! Withdraws entries in the servers' queues that belong to no waiter of this client, and looks at
//! the keys of holds that another program may have changed. Both follow what servers report.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;

use super::{Hold, Holds, LocalQueues};
use crate::{
    Error, ErrorKind,
    base::{
        items::Items,
        primitive::{Primitive, Side, Withdraw, WithdrawRequest, Withdrawn},
        rules::Rule,
        script::ScriptCall,
        sync::{Mutex, lock},
        timeouts,
    },
    net::{Net, Repeated, Strays},
    protocol::{
        name::{Key, Prefix},
        time::Moment,
        waiter::{RECHECKS_PER_SECOND, RateLimiter},
    },
    runtime::{Command, Value},
};

/// The task that reacts to notifications for waiters that this client does not have.
///
/// A waiter that leaves removes its own entry. A server may have the entry nevertheless: a lagging
/// replica takes over, an old snapshot is restored, or the server loses the undo. Such an entry
/// counts as alive, since its client is alive, and would block all waiters behind it. The client
/// that is notified for it therefore withdraws all such entries of the name with one request, and
/// the script notifies the next waiter.
#[derive(Debug)]
pub(crate) struct Withdrawals {
    prefix: Prefix,
    local_queues: Arc<LocalQueues>,
    holds: Arc<Holds>,
    patience: Duration,
    /// Bounds the requests, since anybody who may publish can cause them.
    limiter: Mutex<RateLimiter>,
    /// One object of each kind for which this client has ever waited.
    kinds: Mutex<BTreeMap<&'static str, Arc<dyn Primitive>>>,
    /// The last attempts that were withdrawn.
    struck: Mutex<BTreeSet<u64>>,
}

/// An object whose entries have to be checked, and the cause of the check.
#[derive(Clone, Debug)]
pub(crate) struct Stray {
    pub(crate) key: Key,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Any waiter for the object was notified.
    Called,
    /// The waiter with this number was notified.
    CalledBy(u64),
    /// A connection was made. Another server may have taken over, which may have entries that it
    /// should not have.
    Connected,
}

impl Withdrawals {
    pub(crate) fn new(
        prefix: Prefix,
        local_queues: Arc<LocalQueues>,
        holds: Arc<Holds>,
        patience: Duration,
    ) -> Self {
        Self {
            prefix,
            local_queues,
            holds,
            patience,
            limiter: Mutex::new(RateLimiter::new(RECHECKS_PER_SECOND)),
            kinds: Mutex::default(),
            struck: Mutex::default(),
        }
    }

    /// Tells whether `attempt` was withdrawn lately. A grant under release belongs to no waiter and
    /// to no hold, so a withdrawal may come before the release.
    pub(super) fn has_struck(&self, attempt: u64) -> bool {
        lock(&self.struck).contains(&attempt)
    }

    /// Records that this client waits for objects of this kind.
    pub(super) fn knows(&self, primitive: &Arc<dyn Primitive>) {
        lock(&self.kinds)
            .entry(primitive.kind())
            .or_insert_with(|| Arc::clone(primitive));
    }

    /// Handles stray notifications until dropped: one at a time for each object, and a limited
    /// number of objects concurrently.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        let mut rounds = FuturesUnordered::new();
        let mut busy: BTreeSet<Key> = BTreeSet::new();
        let mut waiting: BTreeMap<Key, Cause> = BTreeMap::new();
        // Another server may have taken over at each connection. Even if connections break all the
        // time, each name costs at most one check per second.
        let mut next_look = net.world.now();
        let mut postponed: BTreeSet<Key> = BTreeSet::new();
        loop {
            if !postponed.is_empty() && net.world.now() >= next_look {
                next_look = net.world.now() + timeouts::QUEUE_LOOK;
                let due = std::mem::take(&mut postponed);
                waiting.extend(due.into_iter().map(|key| (key, Cause::Connected)));
            }
            while busy.len() < AT_A_TIME {
                let next = waiting.keys().find(|key| !busy.contains(*key)).cloned();
                let Some((key, cause)) = next.and_then(|key| waiting.remove_entry(&key)) else {
                    break;
                };
                busy.insert(key.clone());
                rounds.push(self.answer(&net, Stray { key, cause }));
            }
            select! {
                biased;
                Some(key) = rounds.next(), if !rounds.is_empty() => {
                    busy.remove(&key);
                }
                (messages, connected) = net.world.strays.taken() => {
                    let strays = messages.iter().flat_map(|says| Self::read(&self.prefix, says));
                    for stray in strays {
                        if let Cause::CalledBy(HOLDERS) = stray.cause {
                            self.look_at_holds(&stray.key, net.world.now());
                        } else {
                            self.remember(&mut waiting, stray);
                        }
                    }
                    if connected {
                        postponed.extend(self.local_queues.keys());
                    }
                }
                () = net.world.runtime.sleep_until(next_look), if !postponed.is_empty() => {}
            }
        }
    }

    /// Reads the key of each new hold, and of each hold whose key has `changed`, until dropped.
    ///
    /// The server reports one change of a key to the connection that has read the key, so each
    /// report needs another read. If the key is gone, is a value of another program or has another
    /// hold, the hold is renewed at once, and the answer decides. Pools are left aside: other
    /// holders change their keys all the time. A node that does not answer delays no other node's
    /// keys while it has few of them.
    pub(crate) async fn watch_keys(self: Arc<Self>, net: Arc<Net>, changed: Arc<Strays>) {
        let mut reads = FuturesUnordered::new();
        let mut waiting = VecDeque::new();
        loop {
            while reads.len() < AT_A_TIME
                && let Some(hold) = waiting.pop_front()
            {
                reads.push(read(&net, hold, self.patience));
            }
            select! {
                biased;
                Some(()) = reads.next(), if !reads.is_empty() => {}
                (keys, all) = changed.taken() => {
                    if all {
                        waiting = self.holds.all().into();
                    } else {
                        let keys = keys.iter().filter_map(|key| Key::read(&self.prefix, key));
                        let holds = keys.flat_map(|key| self.holds.of(&key));
                        waiting.extend(holds.map(|hold| Arc::downgrade(&hold)));
                    }
                }
            }
        }
    }

    /// One check of an object serves all causes. A cause that is known to need no check gives way
    /// to another.
    fn remember(&self, waiting: &mut BTreeMap<Key, Cause>, stray: Stray) {
        if waiting.len() >= MOST {
            return;
        }
        let known = waiting.entry(stray.key.clone()).or_insert(stray.cause);
        let idle = match *known {
            Cause::Called => true,
            Cause::CalledBy(number) => self.is_known(&stray.key, number),
            Cause::Connected => false,
        };
        if idle {
            *known = stray.cause;
        }
    }

    /// Parses the possible meanings of a message: `<key>` or `<key> <number>`. A key itself may end
    /// with a space and a number.
    pub(crate) fn read(prefix: &Prefix, says: &str) -> impl Iterator<Item = Stray> + use<> {
        let stray = |key: &str, cause| {
            let key = Key::read(prefix, key)?;
            Some(Stray { key, cause })
        };
        let numbered = says.rsplit_once(' ').and_then(|(key, number)| {
            let number = number.parse().ok()?;
            stray(key, Cause::CalledBy(number))
        });
        stray(says, Cause::Called).into_iter().chain(numbered)
    }

    /// Renews the holds of `key` at once. The answers say whether the holds still exist. A renewal
    /// that is due sooner stays.
    fn look_at_holds(&self, key: &Key, now: Moment) {
        for hold in self.holds.of(key) {
            let mut limiter = lock(&self.limiter);
            if limiter.backlog(now) < timeouts::CHECK_BACKLOG {
                let due = limiter.book(now);
                drop(limiter);
                hold.hurry(due);
            }
        }
    }

    /// Handles one cause: withdraws the entries of the object, unless a local waiter makes that
    /// unnecessary.
    async fn answer(&self, net: &Net, stray: Stray) -> Key {
        let needless = match stray.cause {
            Cause::CalledBy(number) => self.is_known(&stray.key, number),
            // Any waiter was notified, so the first waiter of this client may ask.
            Cause::Called => self.local_queues.prompt_first(&stray.key),
            Cause::Connected => false,
        };
        if !needless
            && net.world.rules.keeps(Rule::WithdrawStrays)
            && let Err(error) = self.withdraw(net, &stray).await
        {
            // The next request of another client notifies again.
            tracing::debug!(target: "redlatch", %error, "entries of waiters that have gone are not withdrawn");
        }
        stray.key
    }

    /// Withdraws the entries of an object whose kind is not known: tries each known kind until one
    /// fits.
    async fn withdraw(&self, net: &Net, stray: &Stray) -> Result<(), Error> {
        let kinds: Vec<_> = lock(&self.kinds).values().cloned().collect();
        let mut asked = Vec::new();
        for primitive in kinds {
            let Some(list) = call(net, stray, primitive.as_ref(), Withdraw::List) else {
                continue;
            };
            // Kinds that are sides of one object send the same call.
            let list = list.evalsha(0);
            if asked.contains(&list) {
                continue;
            }
            asked.push(list);
            // Only the server knows the kind of the object under a key.
            if self.withdraw_as(net, stray, primitive.as_ref()).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Withdraws the entries if the object is of this kind. Returns `false` if it is of another
    /// kind.
    async fn withdraw_as(
        &self,
        net: &Net,
        stray: &Stray,
        primitive: &dyn Primitive,
    ) -> Result<bool, Error> {
        loop {
            let Some(found) = self.ask(net, stray, primitive, Withdraw::List).await? else {
                return Ok(false);
            };
            let many = found.len();
            let gone: Vec<_> = found
                .into_iter()
                .filter(|&number| !self.is_known(&stray.key, number))
                .collect();
            // A notification without a number has already removed its entry, so another waiter has
            // to be notified.
            if gone.is_empty() && stray.cause != Cause::Called {
                return Ok(true);
            }
            tracing::debug!(
                target: "redlatch", name = stray.key.name(), entries = gone.len(),
                "withdraws queue entries that no waiter stands behind"
            );
            self.remember_struck(&gone);
            let strike = Withdraw::Strike(&gone);
            let struck = self.ask(net, stray, primitive, strike).await?;
            if struck.is_none() || many < FULL || gone.is_empty() {
                return Ok(true);
            }
        }
    }

    fn remember_struck(&self, gone: &[u64]) {
        let mut struck = lock(&self.struck);
        struck.extend(gone);
        while struck.len() > FULL {
            struck.pop_first();
        }
    }

    /// Tells whether a waiter sends the attempt with this number, or a hold was begun by it. A
    /// waiter enters its hold before it leaves its queue, so they are asked in this order.
    fn is_known(&self, key: &Key, number: u64) -> bool {
        self.local_queues.waits(key, number) || self.holds.has_attempt(key, number)
    }

    /// Sends one withdrawal request. Returns the numbers in the reply; `None` if the object is of
    /// another kind.
    async fn ask(
        &self,
        net: &Net,
        stray: &Stray,
        primitive: &dyn Primitive,
        what: Withdraw<'_>,
    ) -> Result<Option<Vec<u64>>, Error> {
        let Some(call) = call(net, stray, primitive, what) else {
            return Ok(None);
        };
        let due = lock(&self.limiter).book(net.world.now());
        if due > net.world.now() {
            net.world.runtime.sleep_until(due).await;
        }
        let deadline = net.world.now() + self.patience;
        let repeated = Repeated::new(&call, timeouts::REQUEST, deadline);
        let reply = net.insist(repeated).await?.reply;
        Ok(
            match Withdrawn::read(&Items::new(call.script(), &reply)?)? {
                Withdrawn::Found(numbers) => Some(numbers),
                Withdrawn::Struck => Some(Vec::new()),
                Withdrawn::OtherKind => None,
            },
        )
    }
}

/// Builds one withdrawal request. Returns `None` if the kind has none.
fn call(
    net: &Net,
    stray: &Stray,
    primitive: &dyn Primitive,
    what: Withdraw<'_>,
) -> Option<ScriptCall> {
    primitive.withdraw(&WithdrawRequest {
        key: &stray.key,
        // The common prefix of the addresses of all waiters of this client.
        channel: &net.wakes.everywhere.channel,
        what,
    })
}

/// Reads the key of a hold, and renews the hold if the key is not its own any more. Without an
/// answer the connection is lost, too, and all keys are read on the next one.
async fn read(net: &Net, hold: Weak<Hold>, patience: Duration) {
    let present = hold.upgrade().filter(|hold| hold.has_own_key());
    let present = present.map(|hold| (hold.primitive.key().clone(), mark(&hold)));
    let Some((key, (field, value))) = present else {
        return;
    };
    let read = Command::new("HGET").arg(key.as_str()).arg(field);
    let deadline = net.world.now() + patience;
    let gone = match net.ask(key.slot(), read, deadline).await {
        Ok(found) => match value {
            Some(value) => found.as_str() != Some(&value),
            None => found == Value::Nil,
        },
        Err(error) => error.kind() == ErrorKind::WrongKind,
    };
    if gone && let Some(hold) = hold.upgrade() {
        hold.hurry(net.world.now());
    }
}

/// Returns the field that the key of `hold` has until another hold replaces it. Also returns the
/// value of the field, if that tells holds apart.
fn mark(hold: &Hold) -> (String, Option<String>) {
    match hold.primitive.side() {
        Side::Exclusive => ("t".to_owned(), Some(hold.token.to_string())),
        // The owner has a field, as readers have.
        Side::Shared => (format!("r{}", hold.owner), None),
    }
}

/// The number in a message that is about the holds of an object. No waiter has this number.
const HOLDERS: u64 = 0;

/// The maximum number of objects that are checked, or of keys that are read, concurrently.
const AT_A_TIME: usize = 64;

/// The maximum number of objects that wait for a check. A notification beyond that is lost, and a
/// later check of another client notifies again.
const MOST: usize = 4096;

/// A list of this length may be incomplete.
const FULL: usize = 1024;
