//! Where the wakes of this client go: over the whole cluster, or by shard.

use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Hub, Listener, MessageFilter, Router, hub::Reach};
use crate::{
    Error,
    base::{owner::ClientId, rules::Rules, sync::lock},
    protocol::{name::Prefix, slot::tag_in, time::Moment},
};

/// One channel that wakes for this client are sent to, and who hears it.
#[derive(Debug)]
pub(crate) struct Wakes {
    hub: Arc<Hub>,
    channel: Arc<str>,
    /// The slot of the channel, if only the shard of that slot can publish to it.
    slot: Option<u16>,
}

impl Wakes {
    /// Returns the command that publishes.
    pub(crate) const fn verb(&self) -> &'static str {
        match self.slot {
            None => "PUBLISH",
            Some(_) => "SPUBLISH",
        }
    }

    /// Returns the channel. What it says before a brace is the same for all channels of a client:
    /// by that the scripts know whose waiter it is.
    pub(crate) const fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// Tells whether wakes reach this client.
    pub(crate) fn are_heard(&self) -> bool {
        self.hub.hears(&self.channel)
    }

    /// Makes wakes reach this client from now on, for as long as it lives.
    pub(crate) fn pin(&self) {
        self.hub.pin(&self.channel);
    }

    /// Listens for the messages that `filter` names.
    pub(crate) fn listen(&self, filter: MessageFilter) -> Listener {
        self.hub.listen(&self.channel, filter)
    }

    /// Waits until the server has confirmed or refused the channel; fails when it refuses or cannot
    /// be reached.
    ///
    /// # Cancel safety
    ///
    /// It goes on subscribing only if somebody else listens, or it is pinned.
    pub(crate) async fn confirm(&self, deadline: Moment) -> Result<(), Error> {
        self.hub.confirm(&self.channel, deadline).await
    }
}

/// Whereby a waiter is called, unless it wants no wake: it asks on its own account.
#[derive(Clone, Debug)]
pub(crate) struct CalledBy {
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) silent: bool,
}

impl CalledBy {
    /// Returns where a wake for attempt `number` goes.
    pub(crate) fn address(&self, number: u64) -> String {
        let verb = if self.silent {
            "NONE"
        } else {
            self.wakes.verb()
        };
        let channel = self.wakes.channel();
        let mut address = String::with_capacity(verb.len() + channel.len() + 22);
        // A string takes whatever is written to it.
        let _ = write!(address, "{verb} {channel} {number}");
        address
    }
}

/// All channels that wakes for one client may be sent to.
///
/// A message that is published in a cluster goes to all its nodes, unless its channel belongs to a
/// slot (`SPUBLISH`, Redis 7.0): then it stays within the shard of that slot, and only that shard
/// may publish it. So there is a channel for each shard, and a connection for each that the client
/// has waited on. When the shard's slots go to another node (a failover), its channel goes with
/// them. When only the channel's slot does, or only the name's (slots are spread anew), who waits
/// under the old address is woken no more and looks by the clock. With that look it takes the
/// channel that the name's shard has now, unless its address is its ticket in a queue: then it
/// looks by the clock until its acquisition ends. New ones get the new channel.
#[derive(Debug)]
pub(crate) struct WakeRoutes {
    router: Arc<Router>,
    rules: Rules,
    everywhere: Arc<Wakes>,
    by_shard: AtomicBool,
    shards: Mutex<Vec<Arc<Wakes>>>,
}

impl WakeRoutes {
    pub(crate) fn new(hub: &Arc<Hub>, prefix: &Prefix, client: &ClientId, rules: Rules) -> Self {
        Self {
            router: Arc::clone(hub.router()),
            rules,
            everywhere: Arc::new(Wakes {
                hub: Arc::clone(hub),
                channel: format!("{}:w:{client}", prefix.as_str()).into(),
                slot: None,
            }),
            by_shard: AtomicBool::new(false),
            shards: Mutex::default(),
        }
    }

    /// Returns where wakes go for those who wait for what is in `slot`.
    pub(crate) fn of(&self, slot: u16) -> Arc<Wakes> {
        // A slot that nobody serves has no shard.
        if !self.by_shard.load(Ordering::Relaxed) || !self.router.is_served(slot) {
            return Arc::clone(&self.everywhere);
        }
        let mut shards = self.shards();
        let slots = shards.iter().filter_map(|wakes| wakes.slot);
        if let Some(at) = self.router.first_beside(slot, slots) {
            return Arc::clone(&shards[at]);
        }
        self.tidy_up(&mut shards);
        let hub = Hub::new(&self.router, self.rules, Reach::Shard(slot));
        let wakes = Arc::new(Wakes {
            hub,
            channel: format!("{}{{{}}}", self.everywhere.channel, tag_in(slot)).into(),
            slot: Some(slot),
        });
        shards.push(Arc::clone(&wakes));
        wakes
    }

    /// Sends wakes by shard from now on, or over the whole cluster. Addresses of before stay what
    /// they are.
    pub(crate) fn go_by_shard(&self, by_shard: bool) {
        self.by_shard.store(by_shard, Ordering::Relaxed);
        if !by_shard {
            let shards = std::mem::take(&mut *self.shards());
            shards.iter().for_each(|wakes| wakes.hub.retire());
        }
    }

    /// Returns what all channels of this client begin with.
    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.everywhere.channel
    }

    /// Returns the number of listeners on channels of shards.
    pub(crate) fn listeners(&self) -> usize {
        self.shards()
            .iter()
            .map(|wakes| wakes.hub.listeners())
            .sum()
    }

    /// Leaves channels that nobody uses and whose shard has another one by now.
    fn tidy_up(&self, shards: &mut Vec<Arc<Wakes>>) {
        let mut kept: Vec<Arc<Wakes>> = Vec::with_capacity(shards.len() + 1);
        for wakes in shards.drain(..) {
            let used = Arc::strong_count(&wakes) > 1 || wakes.hub.listeners() > 0;
            let doubled = || {
                let slot = wakes.slot;
                let others = kept.iter().filter_map(|first| first.slot);
                slot.is_some_and(|slot| self.router.first_beside(slot, others).is_some())
            };
            if used || !doubled() {
                kept.push(wakes);
            } else {
                wakes.hub.retire();
            }
        }
        *shards = kept;
    }

    fn shards(&self) -> MutexGuard<'_, Vec<Arc<Wakes>>> {
        lock(&self.shards)
    }
}
