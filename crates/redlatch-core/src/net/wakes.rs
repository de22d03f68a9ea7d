//! The channels for this client's notifications: one for the whole cluster, or one per shard.

use std::sync::{Arc, atomic::Ordering};

use super::{Hub, Router, hub::Reach};
use crate::{
    Error,
    base::{
        owner::ClientId,
        primitive::WaiterAddress,
        sync::{AtomicBool, Mutex, lock},
    },
    protocol::{grant::Order, name::Prefix, slot::tag_in, time::Moment},
};

/// One channel for notifications of this client, and the hub that receives them.
#[derive(Debug)]
pub(crate) struct Wakes {
    hub: Arc<Hub>,
    /// All channels of a client have the same text before the brace, by which the scripts recognise
    /// the client of a waiter.
    pub(crate) channel: Arc<str>,
    /// The slot of the channel, if only the shard of that slot can publish to it.
    slot: Option<u16>,
}

impl Wakes {
    /// Returns the command that publishes to the channel.
    pub(crate) const fn verb(&self) -> &'static str {
        match self.slot {
            None => "PUBLISH",
            Some(_) => "SPUBLISH",
        }
    }

    /// Returns whether notifications reach this client.
    pub(crate) fn are_heard(&self) -> bool {
        self.hub.hears(&self.channel)
    }

    /// Subscribes to the notifications for the lifetime of the client.
    pub(crate) fn pin(&self) {
        self.hub.pin(&self.channel);
    }

    /// Waits until notifications reach this client. Returns `false` if they cannot, or not by
    /// `deadline`.
    pub(crate) async fn ready(&self, deadline: Moment) -> bool {
        self.hub.ready(&self.channel, deadline).await
    }

    /// Waits until the server has confirmed or refused the channel. Fails if the server refuses it
    /// or cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// The subscription continues only if the channel has another listener or is pinned.
    pub(crate) async fn confirm(&self, deadline: Moment) -> Result<(), Error> {
        self.hub.confirm(&self.channel, deadline).await
    }
}

/// How the server notifies a waiter.
#[derive(Clone, Debug)]
pub(crate) struct CalledBy {
    /// The channel for the notification.
    pub(crate) wakes: Arc<Wakes>,
    /// Whether the waiter wants no notification, because it polls.
    pub(crate) silent: bool,
    /// The order with which a release may give it the object.
    pub(crate) order: Option<Order>,
}

impl CalledBy {
    /// Returns the address for the notification of `attempt`.
    pub(crate) fn address(&self, attempt: u64) -> WaiterAddress<'_> {
        WaiterAddress {
            prompted: false,
            verb: if self.silent {
                "NONE"
            } else {
                self.wakes.verb()
            },
            channel: &self.wakes.channel,
            attempt,
            number: None,
            order: self.order,
        }
    }
}

/// All channels for the notifications of one client.
///
/// A cluster sends a published message to all its nodes, unless the channel belongs to a slot
/// (`SPUBLISH`, Redis 7.0). Such a message stays within the shard of that slot, and only that shard
/// may publish it. So there is one channel per shard, and one connection per shard that the client
/// has waited on.
///
/// * If all slots of the shard move to another node (a failover), the channel moves with them.
/// * If only the channel's slot moves, or only the name's (a resharding), a waiter with the old
///   address gets no more notifications. It re-checks by timer, and its next re-check takes over
///   the present channel of the name's shard.
/// * A waiter whose address is its ticket in a queue keeps the address. It re-checks by timer until
///   its acquisition ends.
///
/// New waiters get the new channel.
#[derive(Debug)]
pub(crate) struct WakeRoutes {
    router: Arc<Router>,
    /// The channel for the whole cluster, with which all other channels of this client begin. It is
    /// also for messages about holds: a script that sends such a message does not know the channels
    /// of shards.
    pub(crate) everywhere: Arc<Wakes>,
    by_shard: AtomicBool,
    shards: Mutex<Vec<Arc<Wakes>>>,
}

impl WakeRoutes {
    pub(crate) fn new(hub: &Arc<Hub>, prefix: &Prefix, client: &ClientId) -> Self {
        Self {
            router: Arc::clone(&hub.router),
            everywhere: Arc::new(Wakes {
                hub: Arc::clone(hub),
                channel: format!("{}{client}", prefix.wake_channels()).into(),
                slot: None,
            }),
            by_shard: AtomicBool::new(false),
            shards: Mutex::default(),
        }
    }

    /// Returns the channel for waiters for objects in `slot`.
    pub(crate) fn of(&self, slot: u16) -> Arc<Wakes> {
        // A slot without a node has no shard.
        if !self.by_shard.load(Ordering::Relaxed) || self.router.routes().node(slot).is_none() {
            return Arc::clone(&self.everywhere);
        }
        let mut shards = lock(&self.shards);
        let slots = shards.iter().filter_map(|wakes| wakes.slot);
        if let Some(at) = self.router.first_beside(slot, slots) {
            return Arc::clone(&shards[at]);
        }
        self.tidy_up(&mut shards);
        let hub = Hub::new(
            &self.router,
            Reach::Shard(slot),
            &self.everywhere.hub.callees,
        );
        let wakes = Arc::new(Wakes {
            hub,
            channel: format!("{}{{{}}}", self.everywhere.channel, tag_in(slot)).into(),
            slot: Some(slot),
        });
        shards.push(Arc::clone(&wakes));
        wakes
    }

    /// Switches between channels per shard and one channel for the whole cluster. Existing
    /// addresses do not change.
    pub(crate) fn go_by_shard(&self, by_shard: bool) {
        self.by_shard.store(by_shard, Ordering::Relaxed);
        if !by_shard {
            let shards = std::mem::take(&mut *lock(&self.shards));
            shards.iter().for_each(|wakes| wakes.hub.retire());
        }
    }

    /// Retires unused channels whose shard has another channel by now.
    fn tidy_up(&self, shards: &mut Vec<Arc<Wakes>>) {
        let mut kept: Vec<Arc<Wakes>> = Vec::with_capacity(shards.len() + 1);
        for wakes in shards.drain(..) {
            let used = Arc::strong_count(&wakes) > 1;
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
}
