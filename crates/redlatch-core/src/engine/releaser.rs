//! The background releaser. It ends the holds and attempts that dropped guards and abandoned
//! acquisitions leave behind.

mod queue;

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::Notify, task::unconstrained};

pub(crate) use self::queue::Ahead;
use self::queue::{Item, Kept, Queue};
use super::{LocalQueues, PendingRelease, pending_release::send_before};
use crate::{
    base::{
        observe::{self, Labels},
        primitive::Primitive,
        rules::Rule,
        script::{CallOutcome, Failure},
        sync::{AtomicBool, AtomicUsize, Mutex},
        timeouts,
    },
    engine::client_record::ClientRecord,
    net::{Dispatch, Limit, LinkClass, Net, Request},
    runtime::{Address, Value},
};

/// The queue of releases. Any context may fill it; one task empties it.
#[derive(Debug)]
pub(crate) struct Releaser {
    queue: Mutex<Queue>,
    /// The number of unanswered items. Every acquisition reads it without the lock.
    unanswered: AtomicUsize,
    nudge: Notify,
    /// Notified when the queue becomes empty.
    drained: Notify,
    retention: Duration,
    local_queues: Arc<LocalQueues>,
    /// Whether the server has refused a release and has accepted none since.
    refused: AtomicBool,
    /// Whether the server has refused a message.
    silenced: AtomicBool,
}

/// The releases that wait to be sent to one node.
#[derive(Default)]
struct Backlog {
    items: VecDeque<Kept>,
    rounds: usize,
}

impl Backlog {
    /// Tells whether another round may begin. A few releases wait for the round in progress, so
    /// that more of them go into the next pipeline.
    fn may_begin(&self, hurried: bool) -> bool {
        let most = match self.items.len() {
            0 => 0,
            _ if hurried => MOST_ROUNDS,
            1..CHUNK => 1,
            _ => 2,
        };
        self.rounds < most
    }
}

impl Releaser {
    /// Creates an empty queue.
    pub(crate) fn new(retention: Duration, local_queues: Arc<LocalQueues>) -> Self {
        Self {
            queue: Mutex::default(),
            unanswered: AtomicUsize::new(0),
            nudge: Notify::new(),
            drained: Notify::new(),
            retention,
            local_queues,
            refused: AtomicBool::new(false),
            silenced: AtomicBool::new(false),
        }
    }

    /// Reports the first message that the server refused, if this reply says so.
    pub(super) fn heed(&self, primitive: &dyn Primitive, reply: &Value) {
        if let Some(why) = primitive.message_refused(reply) {
            self.message_refused(primitive, why);
        }
    }

    /// Reports that the server refuses messages, once.
    pub(crate) fn message_refused(&self, primitive: &dyn Primitive, why: &str) {
        if !self.silenced.swap(true, Ordering::Relaxed) {
            observe::message_refused(&Labels::of(primitive), primitive.name(), why);
        }
    }

    /// Resolves when every release is answered or given up.
    pub(crate) async fn drained(&self) {
        loop {
            let mut drained = std::pin::pin!(self.drained.notified());
            drained.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            drained.await;
        }
    }

    /// Sends the queued releases until shutdown.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>, record: Arc<ClientRecord>) {
        self.work(&net, &record).await;
        self.abandon();
    }

    /// Serves each node separately, so that a node that does not answer delays no other. Releases
    /// that arrive during a round form the next round of their node, unless a caller waits for
    /// them.
    async fn work(&self, net: &Net, record: &ClientRecord) {
        let mut withdrawn = false;
        let mut rounds = FuturesUnordered::new();
        let mut backlogs: BTreeMap<Node, Backlog> = BTreeMap::new();
        loop {
            let (due, hurried, next) = self.take_due(net.world.now());
            for item in due {
                let backlog = backlogs.entry(node(net, item.slot())).or_default();
                backlog.items.push_back(item);
            }
            for (node, backlog) in &mut backlogs {
                while backlog.may_begin(hurried) {
                    let count = backlog.items.len().min(CHUNK);
                    let chunk: Vec<_> = backlog.items.drain(..count).collect();
                    backlog.rounds += 1;
                    rounds.push(self.round(net, node.clone(), chunk));
                }
            }
            backlogs.retain(|_, backlog| backlog.rounds > 0);
            if rounds.is_empty() && self.is_closing() && self.len() == 0 {
                if withdrawn {
                    net.world.life.stop();
                } else {
                    record.withdraw().await;
                    withdrawn = true;
                    continue;
                }
            }
            select! {
                biased;
                () = net.world.ended() => return,
                Some(node) = rounds.next(), if !rounds.is_empty() => {
                    if let Some(backlog) = backlogs.get_mut(&node) {
                        backlog.rounds -= 1;
                    }
                }
                () = self.nudge.notified() => {}
                () = net.world.runtime.sleep_until(next) => {}
            }
        }
    }

    /// Sends the items of one node as one pipeline and processes the replies.
    async fn round(&self, net: &Net, node: Node, items: Vec<Kept>) -> Node {
        let mut items: Vec<_> = items.into_iter().map(Kept::take).collect();
        let outcomes = self.send(net, &mut items).await;
        for (item, outcome) in items.into_iter().zip(outcomes) {
            self.settle(net, item, outcome);
        }
        node
    }

    /// Sends one pipeline. Marks its releases as sent as soon as they are on their way.
    async fn send(&self, net: &Net, items: &mut [Item]) -> Vec<CallOutcome> {
        let slot = items[0].pending.primitive.key().slot();
        let deadline = net.world.now() + timeouts::REQUEST;
        let session = match net.router.session(slot, LinkClass::Command, deadline).await {
            Ok(session) => session,
            Err(error) => {
                let failure = CallOutcome::Failed(Failure::NotSent(error.to_string()));
                return vec![failure; items.len()];
            }
        };
        let calls = items.iter().map(|item| item.pending.call(self.retention));
        let calls: Vec<_> = calls.collect();
        let calls: Vec<_> = calls.iter().collect();
        let request = Request {
            calls: &calls,
            act_before: session.act_before(net.world.now()),
            limit: Limit {
                silence: timeouts::REQUEST,
                deadline: net.world.now() + timeouts::REQUEST * 10,
            },
            replication: None,
            dispatch: Dispatch::AtOnce,
            checked: None,
        };
        // If the server lacks a script, the client sends it again. It then executes after requests
        // that were sent in between, so the order is not certain.
        let in_order = calls.iter().all(|call| session.has_run(call.script()));
        // Unconstrained: with an exhausted cooperative budget, the first poll would return pending
        // without sending anything.
        let sending = pin!(net.send(&session, &request));
        let begun = || {
            if in_order {
                self.on_their_way(items);
            }
            for item in items {
                item.pending.prompt_next_waiter(&self.local_queues);
            }
        };
        let response = send_before(unconstrained(sending), begun).await;
        for (call, outcome) in calls.iter().zip(&response.outcomes) {
            if let CallOutcome::Replied(_) | CallOutcome::Bare(_) = outcome {
                session.ran(call.script());
            }
        }
        response.outcomes
    }

    /// Processes the outcome of one release. Queues the release again unless the server answered it
    /// or its lease has certainly ended.
    fn settle(&self, net: &Net, mut item: Item, outcome: CallOutcome) {
        let now = net.world.now();
        let pending = &item.pending;
        let labels = Labels::of(pending.primitive.as_ref());
        let mut refused = false;
        let bare = matches!(outcome, CallOutcome::Bare(_));
        let failure = match outcome {
            CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => {
                self.refused.store(false, Ordering::Relaxed);
                pending.answered(&self.local_queues, &net.world.strays, &reply);
                self.heed(pending.primitive.as_ref(), &reply);
                if bare {
                    item.progress.bare = true;
                    return self.repeat_whole(net, item);
                }
                return self.done(item, true);
            }
            CallOutcome::Failed(failure) => failure,
        };
        if failure.effect().ends_release(pending.copies) {
            // The release of an overwritten hold calls no waiter.
            self.local_queues.prompt_first(pending.primitive.key());
            return self.done(item, true);
        }
        if item.progress.bare {
            return self.repeat_whole(net, item);
        }
        let why = match failure {
            // The server may grant a missing permission again, or have free memory again, before
            // the lease ends.
            Failure::Fatal(error) | Failure::Halted(_, error) => {
                refused = true;
                if !self.refused.swap(true, Ordering::Relaxed) {
                    observe::release_refused(&labels, pending.primitive.name(), &error);
                }
                error
            }
            failure => failure.into_error(true),
        };
        if now >= pending.give_up_at || !net.world.rules.keeps(Rule::RetryReleases) {
            observe::release_given_up(&labels, pending.primitive.name(), &why);
            // It may have granted to a waiter of this client, which knows nothing of it.
            self.local_queues.prompt_first(pending.primitive.key());
            return self.done(item, false);
        }
        self.put_back(net, item, refused);
    }

    /// Sends a release with all keys later, after the server has run it without those of the queue.
    /// Ends the release if its keys stay split. An entry that is left is withdrawn when it is its
    /// turn.
    fn repeat_whole(&self, net: &Net, mut item: Item) {
        let over =
            net.world.now() >= item.pending.give_up_at || item.progress.failures >= WHOLE_TRIES;
        if over || self.is_closing() || !net.world.rules.keeps(Rule::RetryReleases) {
            return self.done(item, false);
        }
        // The release has prompted the local waiter.
        item.pending.next_waiter = None;
        self.put_back(net, item, true);
    }
}

/// The node that owns a slot; `None` if there is only one node. Slots without a known owner share
/// `None`, too.
pub(super) type Node = Option<Address>;

pub(super) fn node(net: &Net, slot: u16) -> Node {
    if net.router.is_fixed() {
        None
    } else {
        net.router.node(slot)
    }
}

/// How often a release is tried until the keys of its name are together. That takes about 10 s.
const WHOLE_TRIES: u32 = 16;

/// The maximum number of releases in one pipeline.
const CHUNK: usize = 256;

/// The maximum number of concurrent pipelines to one node while a caller waits for queued releases.
const MOST_ROUNDS: usize = 16;
