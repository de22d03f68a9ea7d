//! Withdraws entries in the servers' queues that no waiter of this client stands behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;

use super::LocalQueues;
use crate::{
    Error,
    base::{
        primitive::{Primitive, Withdraw, WithdrawRequest, Withdrawn},
        rules::{Rule, Rules},
        script::ScriptCall,
        sync::lock,
        timeouts,
    },
    net::{Net, Repeated},
    protocol::name::{Key, Prefix},
};

/// The task that answers calls to waiters which this client does not have.
///
/// A waiter that goes strikes out its own entry. A server may remember the entry nevertheless: a
/// replica that lags takes over, an old snapshot is restored, or the server forgets the undo. Such
/// an entry counts as alive, since its client is, and would hold up everybody behind it. So the
/// client that is called for it withdraws all such entries of the name with one request, and the
/// script calls the next waiter.
#[derive(Debug)]
pub(crate) struct Withdrawals {
    prefix: Prefix,
    /// What the addresses of all waiters of this client have in common.
    channel: Arc<str>,
    local_queues: Arc<LocalQueues>,
    timeout: Duration,
    patience: Duration,
    rules: Rules,
    /// One object of each kind that this client has ever waited for.
    kinds: Mutex<BTreeMap<&'static str, Arc<dyn Primitive>>>,
}

/// Why the entries of an object are looked at.
#[derive(Clone, Debug)]
struct Stray {
    key: Key,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Any waiter for the object was called.
    Called,
    /// The waiter with this number was called.
    CalledBy(u64),
    /// A connection was made: another server may have taken over, which remembers what it should
    /// not.
    Connected,
}

impl Withdrawals {
    pub(crate) fn new(
        prefix: &Prefix,
        channel: &Arc<str>,
        local_queues: &Arc<LocalQueues>,
        (timeout, patience): (Duration, Duration),
        rules: Rules,
    ) -> Self {
        Self {
            prefix: prefix.clone(),
            channel: Arc::clone(channel),
            local_queues: Arc::clone(local_queues),
            timeout,
            patience,
            rules,
            kinds: Mutex::default(),
        }
    }

    /// Notes that this client waits for objects of this kind.
    pub(super) fn knows(&self, primitive: &Arc<dyn Primitive>) {
        lock(&self.kinds)
            .entry(primitive.kind())
            .or_insert_with(|| Arc::clone(primitive));
    }

    /// Answers stray calls until shutdown. Those for one object are answered one after the other,
    /// and those for a few objects at a time.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        let mut rounds = FuturesUnordered::new();
        let mut busy: BTreeSet<Key> = BTreeSet::new();
        let mut waiting: BTreeMap<Key, Cause> = BTreeMap::new();
        // Another server may have taken over at each connection. Connections that break all the
        // time cost one look at each name per second nevertheless.
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
                () = net.world.ended() => return,
                Some(key) = rounds.next(), if !rounds.is_empty() => {
                    busy.remove(&key);
                }
                (messages, connected) = net.world.strays.taken() => {
                    let strays = messages.iter().flat_map(|says| self.read(says));
                    for stray in strays {
                        self.remember(&mut waiting, stray);
                    }
                    if connected {
                        postponed.extend(self.local_queues.keys());
                    }
                }
                () = net.world.runtime.sleep_until(next_look), if !postponed.is_empty() => {}
            }
        }
    }

    /// One look at an object serves all causes; a cause that is known to need none gives way to
    /// another.
    fn remember(&self, waiting: &mut BTreeMap<Key, Cause>, stray: Stray) {
        if waiting.len() >= MOST {
            return;
        }
        let known = waiting.entry(stray.key.clone()).or_insert(stray.cause);
        let idle = match *known {
            Cause::Called => true,
            Cause::CalledBy(number) => self.local_queues.waits(&stray.key, number),
            Cause::Connected => false,
        };
        if idle {
            *known = stray.cause;
        }
    }

    /// Reads what a message may mean: `<key>` or `<key> <number>`, where a key may end like that,
    /// too.
    fn read(&self, says: &str) -> impl Iterator<Item = Stray> {
        let stray = |key: &str, cause| {
            let name = Key::decode(&self.prefix, key)?;
            let key = Key::new(&self.prefix, &name);
            Some(Stray { key, cause })
        };
        let numbered = says.rsplit_once(' ').and_then(|(key, number)| {
            let number = number.parse().ok()?;
            stray(key, Cause::CalledBy(number))
        });
        stray(says, Cause::Called).into_iter().chain(numbered)
    }

    async fn answer(&self, net: &Net, stray: Stray) -> Key {
        let needless = match stray.cause {
            Cause::CalledBy(number) => self.local_queues.waits(&stray.key, number),
            // Whoever of this client is first may come.
            Cause::Called => self.local_queues.prompt_first(&stray.key),
            Cause::Connected => false,
        };
        if !needless
            && self.rules.keeps(Rule::WithdrawStrays)
            && let Err(error) = self.withdraw(net, &stray).await
        {
            // The next look of somebody else calls again.
            tracing::debug!(target: "redlatch", %error, "entries of waiters that have gone are not withdrawn");
        }
        stray.key
    }

    async fn withdraw(&self, net: &Net, stray: &Stray) -> Result<(), Error> {
        let kinds: Vec<_> = lock(&self.kinds).values().cloned().collect();
        let mut asked = Vec::new();
        for primitive in kinds {
            let Some(list) = self.call(stray, primitive.as_ref(), Withdraw::List) else {
                continue;
            };
            // Kinds that are sides of one object ask the same.
            let list = list.evalsha(0);
            if asked.contains(&list) {
                continue;
            }
            asked.push(list);
            // The kind under a key is what the server says.
            if self.withdraw_as(net, stray, primitive.as_ref()).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns `false` if the object is of another kind.
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
                .filter(|&number| !self.local_queues.waits(&stray.key, number))
                .collect();
            // A call that names nobody has taken its entry along, and somebody else has to come.
            if gone.is_empty() && stray.cause != Cause::Called {
                return Ok(true);
            }
            tracing::debug!(
                target: "redlatch", name = stray.key.name(), entries = gone.len(),
                "withdraws queue entries that no waiter stands behind"
            );
            let strike = Withdraw::Strike(&gone);
            let struck = self.ask(net, stray, primitive, strike).await?;
            if struck.is_none() || many < FULL || gone.is_empty() {
                return Ok(true);
            }
        }
    }

    fn call(
        &self,
        stray: &Stray,
        primitive: &dyn Primitive,
        what: Withdraw<'_>,
    ) -> Option<ScriptCall> {
        primitive.withdraw(&WithdrawRequest {
            key: &stray.key,
            channel: &self.channel,
            what,
        })
    }

    /// Returns the numbers that the script tells; `None` if the object is of another kind.
    async fn ask(
        &self,
        net: &Net,
        stray: &Stray,
        primitive: &dyn Primitive,
        what: Withdraw<'_>,
    ) -> Result<Option<Vec<u64>>, Error> {
        let Some(call) = self.call(stray, primitive, what) else {
            return Ok(None);
        };
        let deadline = net.world.now() + self.patience;
        let repeated = Repeated::new(&call, self.timeout, deadline);
        let reply = net.insist(repeated).await?.reply;
        Ok(match primitive.withdrawn(&reply)? {
            Withdrawn::Found(numbers) => Some(numbers),
            Withdrawn::Struck => Some(Vec::new()),
            Withdrawn::OtherKind => None,
        })
    }
}

/// Objects that are looked at at a time.
const AT_A_TIME: usize = 64;

/// Objects that wait to be looked at; a call for more is lost, and another look calls again.
const MOST: usize = 4096;

/// A list that is so long may not be the whole one.
const FULL: usize = 1024;
