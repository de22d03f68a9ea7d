//! Who listens on which channel, and what the server has confirmed. No await in here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use crate::{
    Error,
    base::{
        rules::{Rule, Rules},
        sync::lock,
    },
    runtime::Push,
};

/// The messages that a listener takes on its channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageFilter {
    /// Any message.
    Any,
    /// A message that says just this.
    Exact(Arc<str>),
}

/// How a listener is reached.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// A message came, or may have been missed.
    pub(crate) wake: Notify,
    /// It was a message.
    pub(crate) called: AtomicBool,
    /// The number of the last message, for those who take any.
    said: Mutex<Option<u64>>,
    /// The standing of its channel changed.
    pub(crate) settled: Notify,
}

impl Inbox {
    /// Takes the number of the last message, unless it was taken before or no message came.
    pub(super) fn take(&self) -> Option<u64> {
        self.called.store(false, Ordering::Relaxed);
        self.said().take()
    }

    fn call(&self, number: Option<u64>) {
        if number.is_some() {
            *self.said() = number;
        }
        self.called.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn said(&self) -> MutexGuard<'_, Option<u64>> {
        lock(&self.said)
    }
}

/// Whether messages on a channel reach us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// They do.
    Heard,
    /// Not yet.
    Pending,
    /// Not until something changes.
    Deaf,
}

/// What to ask the server for next.
#[derive(Debug)]
pub(crate) enum Change {
    Subscribe(Vec<Arc<str>>),
    Unsubscribe(Vec<Arc<str>>),
}

/// All channels of a hub and their listeners.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionTable {
    channels: BTreeMap<Arc<str>, Subscription>,
    /// Channels to be asked for.
    wanted: BTreeSet<Arc<str>>,
    /// Confirmed channels that nobody listens on.
    unused: BTreeSet<Arc<str>>,
    /// How many are asked for and not confirmed.
    asked: usize,
    next_id: u64,
    /// How many messages have come.
    messages: u64,
    started: bool,
    rules: Rules,
    phase: Phase,
    /// Messages that nobody listened for.
    strays: Vec<Arc<str>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Connecting,
    /// Connected; `restoring` until everything of before is confirmed again.
    Up {
        restoring: bool,
    },
    Down,
}

#[derive(Debug, Default)]
struct Subscription {
    inboxes: BTreeMap<(MessageFilter, u64), Arc<Inbox>>,
    /// Stays subscribed without listeners.
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

impl SubscriptionTable {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Notes that the hub runs; returns whether it did not before.
    pub(super) const fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    /// Keeps `channel` subscribed without listeners; returns whether it is new.
    pub(super) fn pin(&mut self, channel: &Arc<str>) -> bool {
        let fresh = self.open(channel);
        self.unused.remove(channel);
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.pinned = true;
        }
        fresh
    }

    /// Adds a listener; returns its id, its inbox, and whether the channel is new.
    pub(super) fn listen(
        &mut self,
        channel: &Arc<str>,
        filter: MessageFilter,
    ) -> (u64, Arc<Inbox>, bool) {
        let fresh = self.open(channel);
        self.unused.remove(channel);
        let id = self.next_id;
        self.next_id += 1;
        let inbox = Arc::new(Inbox::default());
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.inboxes.insert((filter, id), Arc::clone(&inbox));
        }
        (id, inbox, fresh)
    }

    /// Removes a listener; returns whether the channel is to be left.
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
            // It is left when its confirmation comes.
            Stage::Asked => false,
            Stage::Wanted | Stage::Refused(_) => {
                self.wanted.remove(channel);
                self.channels.remove(channel);
                false
            }
        }
    }

    /// Tells whether there is a connection.
    pub(super) const fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up { .. })
    }

    pub(super) fn standing(&self, channel: &str) -> Standing {
        match (
            &self.phase,
            self.channels.get(channel).map(|channel| &channel.stage),
        ) {
            (Phase::Down, _) | (_, None | Some(Stage::Refused(_))) => Standing::Deaf,
            (Phase::Up { .. }, Some(Stage::Confirmed)) => Standing::Heard,
            _ => Standing::Pending,
        }
    }

    /// Returns why the server refused `channel`, if it did.
    pub(super) fn refusal(&self, channel: &str) -> Option<Error> {
        match &self.channels.get(channel)?.stage {
            Stage::Refused(error) => Some(error.clone()),
            _ => None,
        }
    }

    pub(super) fn listeners(&self) -> usize {
        self.channels
            .values()
            .map(|channel| channel.inboxes.len())
            .sum()
    }

    /// A new connection is up: nothing is subscribed on it.
    pub(super) fn connected(&mut self) {
        // Before the first connection nothing can have been missed.
        self.phase = Phase::Up {
            restoring: matches!(self.phase, Phase::Down),
        };
    }

    /// The connection is gone: everybody looks for himself.
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

    /// Returns what to ask for next, at most `chunk` channels; nothing while answers are due.
    pub(super) fn next_change(&mut self, chunk: usize) -> Option<Change> {
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

    /// Tells whether nothing is left to be confirmed.
    pub(super) const fn is_settled(&self) -> bool {
        self.asked == 0
    }

    /// The server refused these channels.
    pub(super) fn refused(&mut self, channels: &[Arc<str>], why: &Error) {
        for channel in channels {
            self.settle(channel, Stage::Refused(why.clone()));
        }
    }

    /// Takes in a push; returns whether nothing is left to be confirmed.
    pub(super) fn take(&mut self, push: Push) -> bool {
        match push {
            Push::Message { channel, payload } => self.message(&channel, &payload),
            Push::Subscribed(channel) => {
                self.settle(&String::from_utf8_lossy(&channel).into(), Stage::Confirmed);
            }
            Push::Unsubscribed(channel) => {
                self.unsubscribed(&String::from_utf8_lossy(&channel).into());
            }
        }
        self.asked == 0
    }

    fn open(&mut self, channel: &Arc<str>) -> bool {
        if self.channels.contains_key(channel) {
            return false;
        }
        self.channels
            .insert(Arc::clone(channel), Subscription::default());
        self.wanted.insert(Arc::clone(channel))
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

    /// A subscription has ended. If nobody asked for that, it is asked for again.
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

    /// Returns the messages that nobody listened for, since it was last asked.
    pub(super) fn take_strays(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.strays)
    }

    /// Wakes who listens. Keeps a message that nobody listens for.
    fn message(&mut self, channel: &[u8], payload: &[u8]) {
        let (Ok(channel), Ok(payload)) =
            (std::str::from_utf8(channel), std::str::from_utf8(payload))
        else {
            return;
        };
        let Some(entry) = self.channels.get(channel) else {
            return;
        };
        self.messages += 1;
        let payload = Arc::<str>::from(payload);
        let mut heard = payload.is_empty();
        for filter in [
            MessageFilter::Exact(Arc::clone(&payload)),
            MessageFilter::Any,
        ] {
            let number = (filter == MessageFilter::Any).then_some(self.messages);
            for (_, inbox) in entry
                .inboxes
                .range((filter.clone(), 0)..=(filter, u64::MAX))
            {
                inbox.call(number);
                heard = true;
            }
        }
        if !heard {
            self.strays.push(payload);
        }
    }

    /// Everything is confirmed: what was published before that may have been missed.
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
        for inbox in self
            .channels
            .values()
            .flat_map(|channel| channel.inboxes.values())
        {
            inbox.settled.notify_one();
            if wake {
                inbox.wake.notify_one();
            }
        }
    }
}
