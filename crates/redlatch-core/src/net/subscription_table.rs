//! The listeners of each channel, and the confirmations of the server. This module never awaits.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use tokio::sync::Notify;

use super::Bell;
use crate::{
    Error,
    base::rules::{Rule, Rules},
    runtime::Push,
};

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
    /// The client's channels whose messages may have been missed.
    missed: Vec<Arc<str>>,
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
    listeners: BTreeMap<u64, Arc<Bell>>,
    /// Whether the channel belongs to the client. It stays subscribed without listeners, and its
    /// messages name the waiters that they are for.
    pinned: bool,
    stage: Stage,
    /// Notified when the standing changes.
    settled: Arc<Notify>,
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
    fn is_used(&self) -> bool {
        self.pinned || !self.listeners.is_empty()
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

    /// Makes `channel` one of the client. Returns whether the channel is new.
    pub(crate) fn pin(&mut self, channel: &Arc<str>) -> bool {
        let (entry, fresh) = self.open(channel);
        entry.pinned = true;
        fresh
    }

    /// Adds a listener. Returns its id, and whether the channel is new.
    pub(crate) fn listen(&mut self, channel: &Arc<str>, bell: Arc<Bell>) -> (u64, bool) {
        let id = self.next_id;
        self.next_id += 1;
        let (entry, fresh) = self.open(channel);
        entry.listeners.insert(id, bell);
        (id, fresh)
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
    pub(super) fn unlisten(&mut self, channel: &Arc<str>, id: u64) -> bool {
        let Some(entry) = self.channels.get_mut(channel) else {
            return false;
        };
        entry.listeners.remove(&id);
        if entry.is_used() {
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

    /// Returns whether the last connection failed for good.
    pub(super) fn is_hopeless(&self) -> bool {
        let trouble = self.trouble.as_ref();
        trouble.is_some_and(|trouble| !trouble.is_transient())
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
        channels.map(|channel| channel.listeners.len()).sum()
    }

    /// Records a new connection, which has no subscriptions yet.
    pub(super) fn connected(&mut self) {
        // No message can be missed before the first connection.
        self.phase = Phase::Up {
            restoring: matches!(self.phase, Phase::Down),
        };
    }

    /// Records the end of the connection. All waiters learn of that, so that they ask the server
    /// themselves.
    pub(super) fn disconnected(&mut self) {
        self.phase = Phase::Down;
        self.asked = 0;
        self.unused.clear();
        self.channels.retain(|_, channel| channel.is_used());
        self.wanted = self.channels.keys().cloned().collect();
        for channel in self.channels.values_mut() {
            channel.stage = Stage::Wanted;
        }
        self.have_missed();
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

    /// Handles a push. Returns a message on a channel of the client.
    pub(crate) fn take(&mut self, push: Push) -> Option<String> {
        match push {
            Push::Message { channel, payload } => return self.message(&channel, payload),
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
            entry.settled.notify_waiters();
            if !entry.is_used() {
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

    /// Rings the listeners for a message. Returns a message on a channel of the client.
    fn message(&mut self, channel: &[u8], payload: Vec<u8>) -> Option<String> {
        let entry = self.channels.get(std::str::from_utf8(channel).ok()?)?;
        self.messages += 1;
        for bell in entry.listeners.values() {
            bell.ring(|news| news.message = Some(self.messages));
        }
        entry.pinned.then(|| String::from_utf8(payload).ok())?
    }

    /// Ends the restoration. All channels are confirmed, and messages before that may have been
    /// missed.
    fn restored(&mut self) {
        if let Phase::Up {
            restoring: restoring @ true,
        } = &mut self.phase
        {
            *restoring = false;
            self.have_missed();
        }
    }

    /// Rings all listeners, since messages may have been missed.
    fn have_missed(&mut self) {
        let tell = self.rules.keeps(Rule::WakeAfterGap);
        for (channel, entry) in &self.channels {
            entry.settled.notify_waiters();
            if tell {
                self.missed
                    .extend(entry.pinned.then(|| Arc::clone(channel)));
                let bells = entry.listeners.values();
                bells.for_each(|bell| bell.ring(|news| news.missed = true));
            }
        }
    }

    /// Returns what is notified when the standing of `channel` changes.
    pub(super) fn settled(&self, channel: &str) -> Arc<Notify> {
        let entry = self.channels.get(channel);
        entry.map_or_else(Arc::default, |entry| Arc::clone(&entry.settled))
    }

    /// Returns the client's channels whose messages may have been missed since the last call.
    pub(super) fn take_missed(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.missed)
    }
}
