//! Withdraws entries in the servers' queues that no waiter of this client stands behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;

use super::Turns;
use crate::{
    Error,
    net::Net,
    primitive::{Primitive, Withdraw, WithdrawRequest, Withdrawn},
    protocol::name::{Key, Prefix},
    rules::{Rule, Rules},
    sync::lock,
};

/// The task that answers calls to waiters which this client does not have.
///
/// A waiter that goes strikes out its own entry. A server may remember the entry nevertheless: a
/// replica that lags takes over, an old snapshot is restored, or the server forgets the undo. Such an
/// entry counts as alive, since its client is, and would hold up everybody behind it. So the client
/// that is called for it withdraws all such entries of the name with one request, and the script
/// calls the next waiter.
#[derive(Debug)]
pub(crate) struct Withdrawals {
    prefix: Prefix,
    /// What the addresses of all waiters of this client have in common.
    channel: Arc<str>,
    turns: Arc<Turns>,
    timeout: Duration,
    patience: Duration,
    rules: Rules,
    /// One object of each kind that this client has ever waited for.
    kinds: Mutex<BTreeMap<&'static str, Arc<dyn Primitive>>>,
}

/// A call that nobody listened for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stray {
    key: Key,
    /// Which waiter was called; `None` where any waiter for the object may come.
    number: Option<u64>,
}

impl Withdrawals {
    pub(crate) fn new(
        prefix: &Prefix,
        channel: &Arc<str>,
        turns: &Arc<Turns>,
        (timeout, patience): (Duration, Duration),
        rules: Rules,
    ) -> Self {
        Self {
            prefix: prefix.clone(),
            channel: Arc::clone(channel),
            turns: Arc::clone(turns),
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

    /// Answers stray calls until shutdown. Those for one object are answered one after the other.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        let mut rounds = FuturesUnordered::new();
        let mut busy: BTreeMap<Key, BTreeSet<Stray>> = BTreeMap::new();
        loop {
            select! {
                biased;
                () = net.world.ended() => return,
                Some(key) = rounds.next(), if !rounds.is_empty() => {
                    let again = busy.remove(&key).unwrap_or_default();
                    if let Some(stray) = again.into_iter().next() {
                        busy.insert(key, BTreeSet::new());
                        rounds.push(self.answer(&net, stray));
                    }
                }
                messages = net.world.strays.taken() => {
                    for stray in messages.iter().flat_map(|says| self.read(says)) {
                        if let Some(waiting) = busy.get_mut(&stray.key) {
                            // One withdraws all there are; another round looks whether more came.
                            waiting.clear();
                            waiting.insert(stray);
                        } else {
                            busy.insert(stray.key.clone(), BTreeSet::new());
                            rounds.push(self.answer(&net, stray));
                        }
                    }
                }
            }
        }
    }

    /// Reads what a message may mean: `<key>` or `<key> <number>`, where a key may end like that, too.
    fn read(&self, says: &str) -> impl Iterator<Item = Stray> {
        let stray = |key: &str, number| {
            let name = Key::decode(&self.prefix, key)?;
            let key = Key::new(&self.prefix, &name);
            Some(Stray { key, number })
        };
        let numbered = says.rsplit_once(' ').and_then(|(key, number)| {
            let number = number.parse().ok()?;
            stray(key, Some(number))
        });
        stray(says, None).into_iter().chain(numbered)
    }

    async fn answer(&self, net: &Net, stray: Stray) -> Key {
        let waits = match stray.number {
            Some(number) => self.turns.waits(&stray.key, number),
            // Whoever of this client is first may come.
            None => self.turns.prompt(&stray.key),
        };
        if !waits
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
        for primitive in kinds {
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
                .filter(|&number| !self.turns.waits(&stray.key, number))
                .collect();
            // A call that names nobody has taken its entry along, and somebody else has to come.
            if gone.is_empty() && stray.number.is_some() {
                return Ok(true);
            }
            tracing::debug!(
                target: "redlatch", name = stray.key.name(), entries = gone.len(),
                "withdraws queue entries that no waiter stands behind"
            );
            let strike = Withdraw::Strike(&gone);
            if self.ask(net, stray, primitive, strike).await?.is_none() || many < FULL {
                return Ok(true);
            }
        }
    }

    /// Returns the numbers that the script tells; `None` if the object is of another kind.
    async fn ask(
        &self,
        net: &Net,
        stray: &Stray,
        primitive: &dyn Primitive,
        what: Withdraw<'_>,
    ) -> Result<Option<Vec<u64>>, Error> {
        let request = WithdrawRequest {
            key: &stray.key,
            channel: &self.channel,
            what,
        };
        let Some(call) = primitive.withdraw(&request) else {
            return Ok(None);
        };
        let deadline = net.world.now() + self.patience;
        let reply = net.insist(&call, self.timeout, deadline).await?;
        Ok(match primitive.withdrawn(&reply)? {
            Withdrawn::Found(numbers) => Some(numbers),
            Withdrawn::Struck => Some(Vec::new()),
            Withdrawn::OtherKind => None,
        })
    }
}

/// A list that is so long may not be the whole one.
const FULL: usize = 1024;
