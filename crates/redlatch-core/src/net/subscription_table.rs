//! The listeners of each channel, and the confirmations of the server. This module never awaits.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use tokio::sync::Notify;

use crate::{
    Error,
    base::{
        rules::{Rule, Rules},
        sync::{Mutex, lock},
    },
    protocol::grant::Notice,
    runtime::Push,
};

/// The messages that a listener takes on its channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageFilter {
    /// Any message.
    Any,
    /// A message with exactly this text.
    Exact(Arc<str>),
}

/// The connection between the table and one listener.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Notified when a message came, or may have been missed.
    pub(super) wake: Notify,
    said: Mutex<Said>,
    /// Notified when the standing of the channel changes.
    pub(super) settled: Notify,
}

/// What messages said that the listener has not read.
#[derive(Debug, Default)]
struct Said {
    /// Whether a message came.
    called: bool,
    /// The number of the last message, for listeners that take any message.
    number: Option<u64>,
    /// The last message about a grant.
    grant: Option<Notice>,
}

impl Inbox {
    /// Returns whether a message came since the last call.
    pub(crate) fn take_called(&self) -> bool {
        std::mem::take(&mut lock(&self.said).called)
    }

    /// Takes the number of the last message. Returns `None` if it was taken before, or if no
    /// message came.
    pub(super) fn take_number(&self) -> Option<u64> {
        let mut said = lock(&self.said);
        said.called = false;
        said.number.take()
    }

    /// Takes the last message about a grant.
    pub(crate) fn take_grant(&self) -> Option<Notice> {
        lock(&self.said).grant.take()
    }

    fn call(&self, number: Option<u64>, grant: Option<Notice>) {
        let mut said = lock(&self.said);
        *said = Said {
            called: true,
            number: number.or(said.number),
            grant: grant.or(said.grant),
        };
        drop(said);
        self.wake.notify_one();
    }
}

/// Whether messages on a channel reach the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Messages reach the client.
    Heard,
    /// The subscription is not yet confirmed.
    Pending,
    /// Messages do not reach the client until the connection or the subscription changes.
    Unsubscribed,
}

/// The next request to the server.
#[derive(Debug)]
pub(crate) enum Change {
    Subscribe(Vec<Arc<str>>),
    Unsubscribe(Vec<Arc<str>>),
}

/// All channels of a hub and their listeners.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionTable {
    channels: BTreeMap<Arc<str>, Subscription>,
    /// Channels to subscribe.
    wanted: BTreeSet<Arc<str>>,
    /// Confirmed channels without listeners.
    unused: BTreeSet<Arc<str>>,
    /// The number of channels that are requested and not yet confirmed.
    asked: usize,
    next_id: u64,
    /// The number of messages so far.
    messages: u64,
    started: bool,
    /// Whether channels are requested one by one, since one of several was refused.
    one_by_one: bool,
    rules: Rules,
    phase: Phase,
    /// Why the last connection ended, or could not be made.
    pub(super) trouble: Option<Error>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Connecting,
    /// Connected. `restoring` is set until all earlier channels are confirmed again.
    Up {
        restoring: bool,
    },
    Down,
}

#[derive(Debug, Default)]
struct Subscription {
    inboxes: BTreeMap<(MessageFilter, u64), Arc<Inbox>>,
    /// Whether the channel stays subscribed without listeners.
    pinned: bool,
    stage: Stage,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Wanted,
    Asked,
    Confirmed,
    Refused(Error),
}

impl Subscription {
    fn inboxes_of(&self, filter: MessageFilter) -> impl Iterator<Item = &Arc<Inbox>> {
        let listeners = self.inboxes.range((filter.clone(), 0)..=(filter, u64::MAX));
        listeners.map(|(_, inbox)| inbox)
    }

    /// Tells whether a listener waits for exactly this message.
    fn has_listener(&self, message: &Arc<str>) -> bool {
        let exact = MessageFilter::Exact(Arc::clone(message));
        self.inboxes_of(exact).next().is_some()
    }
}

impl SubscriptionTable {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Records that the hub runs. Returns whether it did not run before.
    pub(super) const fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    /// Keeps `channel` subscribed without listeners. Returns whether the channel is new.
    pub(super) fn pin(&mut self, channel: &Arc<str>) -> bool {
        let (entry, fresh) = self.open(channel);
        entry.pinned = true;
        fresh
    }

    /// Adds a listener. Returns its id, its inbox, and whether the channel is new.
    pub(crate) fn listen(
        &mut self,
        channel: &Arc<str>,
        filter: MessageFilter,
    ) -> (u64, Arc<Inbox>, bool) {
        let id = self.next_id;
        self.next_id += 1;
        let inbox = Arc::new(Inbox::default());
        let (entry, fresh) = self.open(channel);
        entry.inboxes.insert((filter, id), Arc::clone(&inbox));
        (id, inbox, fresh)
    }

    /// Returns the entry of a channel that is used, and whether it is new.
    fn open(&mut self, channel: &Arc<str>) -> (&mut Subscription, bool) {
        self.unused.remove(channel);
        match self.channels.entry(Arc::clone(channel)) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => {
                let fresh = self.wanted.insert(Arc::clone(channel));
                (entry.insert(Subscription::default()), fresh)
            }
        }
    }

    /// Removes a listener. Returns whether the channel is to be unsubscribed.
    pub(super) fn unlisten(&mut self, channel: &Arc<str>, filter: &MessageFilter, id: u64) -> bool {
        let Some(entry) = self.channels.get_mut(channel) else {
            return false;
        };
        entry.inboxes.remove(&(filter.clone(), id));
        if !entry.inboxes.is_empty() || entry.pinned {
            return false;
        }
        match entry.stage {
            Stage::Confirmed => self.unused.insert(Arc::clone(channel)),
            // The channel is unsubscribed when its confirmation arrives.
            Stage::Asked => false,
            Stage::Wanted | Stage::Refused(_) => {
                self.wanted.remove(channel);
                self.channels.remove(channel);
                false
            }
        }
    }

    /// Returns whether the connection is up.
    pub(super) const fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up { .. })
    }

    pub(super) fn standing(&self, channel: &str) -> Standing {
        let stage = self.channels.get(channel).map(|channel| &channel.stage);
        match (&self.phase, stage) {
            (Phase::Down, _) | (_, None | Some(Stage::Refused(_))) => Standing::Unsubscribed,
            (Phase::Up { .. }, Some(Stage::Confirmed)) => Standing::Heard,
            _ => Standing::Pending,
        }
    }

    /// Returns the refusal of `channel`, if the server refused it.
    pub(super) fn refusal(&self, channel: &str) -> Option<Error> {
        match &self.channels.get(channel)?.stage {
            Stage::Refused(error) => Some(error.clone()),
            _ => None,
        }
    }

    pub(super) fn listeners(&self) -> usize {
        let channels = self.channels.values();
        channels.map(|channel| channel.inboxes.len()).sum()
    }

    /// Records a new connection, which has no subscriptions yet.
    pub(super) fn connected(&mut self) {
        // No message can be missed before the first connection.
        self.phase = Phase::Up {
            restoring: matches!(self.phase, Phase::Down),
        };
    }

    /// Records the end of the connection. All listeners are woken, so that they ask the server
    /// themselves.
    pub(super) fn disconnected(&mut self) {
        self.phase = Phase::Down;
        self.asked = 0;
        self.unused.clear();
        self.channels
            .retain(|_, channel| channel.pinned || !channel.inboxes.is_empty());
        self.wanted = self.channels.keys().cloned().collect();
        for channel in self.channels.values_mut() {
            channel.stage = Stage::Wanted;
        }
        self.wake_all();
    }

    /// Returns the next request, with at most `chunk` channels. Returns `None` while confirmations
    /// are pending.
    pub(super) fn next_change(&mut self, chunk: usize) -> Option<Change> {
        // Unsubscriptions wait for no confirmation. Subscriptions go one chunk at a time.
        if !self.unused.is_empty() {
            let channels: Vec<_> = self.unused.iter().take(chunk).cloned().collect();
            for channel in &channels {
                self.unused.remove(channel);
                self.channels.remove(channel);
            }
            return Some(Change::Unsubscribe(channels));
        }
        if self.asked > 0 {
            return None;
        }
        if self.wanted.is_empty() {
            self.restored();
            return None;
        }
        let chunk = if self.one_by_one { 1 } else { chunk };
        let channels: Vec<_> = self.wanted.iter().take(chunk).cloned().collect();
        for channel in &channels {
            self.wanted.remove(channel);
            if let Some(entry) = self.channels.get_mut(channel) {
                entry.stage = Stage::Asked;
                self.asked += 1;
            }
        }
        Some(Change::Subscribe(channels))
    }

    /// Returns whether no confirmation is pending.
    pub(super) const fn is_settled(&self) -> bool {
        self.asked == 0
    }

    /// Records that the server refused these channels. It may be that it refuses only some of them,
    /// so they are then requested one by one.
    pub(super) fn refused(&mut self, channels: &[Arc<str>], why: &Error) {
        if let [channel] = channels {
            return self.settle(channel, Stage::Refused(why.clone()));
        }
        self.one_by_one = true;
        for channel in channels {
            if let Some(entry) = self.channels.get_mut(channel)
                && let Stage::Asked = entry.stage
            {
                entry.stage = Stage::Wanted;
                self.asked -= 1;
                self.wanted.insert(Arc::clone(channel));
            }
        }
    }

    /// Handles a push. Returns a message without a listener.
    pub(crate) fn take(&mut self, push: Push) -> Option<Arc<str>> {
        match push {
            Push::Message { channel, payload } => return self.message(&channel, &payload),
            Push::Subscribed(channel) => {
                self.settle(&String::from_utf8_lossy(&channel).into(), Stage::Confirmed);
            }
            Push::Unsubscribed(channel) => {
                self.unsubscribed(&String::from_utf8_lossy(&channel).into());
            }
        }
        None
    }

    fn settle(&mut self, channel: &Arc<str>, stage: Stage) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        if let Stage::Asked = entry.stage {
            self.asked -= 1;
            entry.stage = stage;
            for inbox in entry.inboxes.values() {
                inbox.settled.notify_one();
            }
            if entry.inboxes.is_empty() && !entry.pinned {
                self.unused.insert(Arc::clone(channel));
            }
        }
    }

    /// Records the end of a subscription. If the client did not request it, the channel is
    /// subscribed again.
    fn unsubscribed(&mut self, channel: &Arc<str>) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return;
        };
        if let Stage::Confirmed = entry.stage {
            entry.stage = Stage::Wanted;
            self.unused.remove(channel);
            self.wanted.insert(Arc::clone(channel));
            self.phase = Phase::Up { restoring: true };
        }
    }

    /// Wakes the listeners for a message. Returns a message without a listener.
    fn message(&mut self, channel: &[u8], payload: &[u8]) -> Option<Arc<str>> {
        let channel = std::str::from_utf8(channel).ok()?;
        let payload = std::str::from_utf8(payload).ok()?;
        let entry = self.channels.get(channel)?;
        self.messages += 1;
        // A message about a grant names the waiter as any other message does, before its last word.
        // A name may end like such a message.
        let mut called = Arc::<str>::from(payload);
        let mut grant = None;
        if let Some((waiter, notice)) = Notice::split(payload)
            && !entry.has_listener(&called)
        {
            called = waiter.into();
            grant = Some(notice);
        }
        let mut heard = called.is_empty();
        for filter in [
            MessageFilter::Exact(Arc::clone(&called)),
            MessageFilter::Any,
        ] {
            let number = (filter == MessageFilter::Any).then_some(self.messages);
            for inbox in entry.inboxes_of(filter) {
                inbox.call(number, grant);
                heard = true;
            }
        }
        (!heard).then_some(called)
    }

    /// Ends the restoration. All channels are confirmed, and messages before that may have been
    /// missed.
    fn restored(&mut self) {
        if let Phase::Up {
            restoring: restoring @ true,
        } = &mut self.phase
        {
            *restoring = false;
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let wake = self.rules.keeps(Rule::WakeAfterGap);
        let channels = self.channels.values();
        for inbox in channels.flat_map(|channel| channel.inboxes.values()) {
            inbox.settled.notify_one();
            if wake {
                inbox.wake.notify_one();
            }
        }
    }
}
