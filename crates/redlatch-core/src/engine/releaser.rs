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
use self::queue::{Item, Queue, Sent};
use super::{LocalQueues, PendingRelease, pending_release::send_before};
use crate::{
    base::{
        observe::{self, Labels},
        primitive::Primitive,
        rules::{Rule, Rules},
        script::{CallOutcome, Failure},
        sync::AtomicBool,
        timeouts,
    },
    engine::client_record::ClientRecord,
    net::{Dispatch, Limit, LinkClass, Net, Request},
    protocol::name::Key,
    runtime::{Address, Value},
};

/// The queue of releases. Any context may fill it; one task empties it.
#[derive(Debug)]
pub(crate) struct Releaser {
    queue: Queue,
    nudge: Notify,
    /// Notified when the queue becomes empty.
    drained: Notify,
    retention: Duration,
    rules: Rules,
    local_queues: Arc<LocalQueues>,
    /// Whether the server has refused a release and has accepted none since.
    refused: AtomicBool,
    /// Whether the server has refused a message.
    silenced: AtomicBool,
}

/// The releases that wait to be sent to one node.
#[derive(Default)]
struct Backlog {
    items: VecDeque<Item>,
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
    pub(crate) fn new(retention: Duration, rules: Rules, local_queues: Arc<LocalQueues>) -> Self {
        Self {
            queue: Queue::default(),
            nudge: Notify::new(),
            drained: Notify::new(),
            retention,
            rules,
            local_queues,
            refused: AtomicBool::new(false),
            silenced: AtomicBool::new(false),
        }
    }

    /// Queues a release.
    pub(crate) fn push(&self, pending: PendingRelease) {
        if self.queue.push(pending) {
            self.nudge.notify_one();
        }
    }

    /// Returns a future that resolves when every release queued now for `key` has reached the stage
    /// `ahead`. `None` if none is outstanding. The releaser sends the queue at once.
    pub(crate) fn ahead(
        &self,
        key: &Key,
        ahead: Ahead,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let waiting = self.queue.ahead(key, ahead)?;
        self.nudge.notify_one();
        Some(waiting)
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

    /// Returns the number of unanswered releases.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
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

    /// Ends all background work of the client when the queue is empty.
    pub(crate) fn finish(&self) {
        self.queue.close();
        self.nudge.notify_one();
    }

    /// Sends the queued releases until shutdown.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>, record: Arc<ClientRecord>) {
        self.work(&net, &record).await;
        self.abandon();
    }

    /// Drops the queue. The leases end the holds: nothing sends the releases any more.
    pub(crate) fn abandon(&self) {
        self.queue.stop();
        self.drained.notify_waiters();
    }

    /// Serves each node separately, so that a node that does not answer delays no other. Releases
    /// that arrive during a round form the next round of their node, unless a caller waits for
    /// them.
    async fn work(&self, net: &Net, record: &ClientRecord) {
        let mut withdrawn = false;
        let mut rounds = FuturesUnordered::new();
        let mut backlogs: BTreeMap<Node, Backlog> = BTreeMap::new();
        loop {
            let (due, hurried, next) = self.queue.take_due(net.world.now());
            for item in due {
                let backlog = backlogs.entry(node(net, &item)).or_default();
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
            if rounds.is_empty() && self.queue.is_done() {
                if withdrawn {
                    net.world.life.stop();
                } else {
                    record.withdraw(net).await;
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
    async fn round(&self, net: &Net, node: Node, items: Vec<Item>) -> Node {
        let mut releases: Vec<_> = items.into_iter().map(Item::take).collect();
        let outcomes = self.send(net, &mut releases).await;
        for ((pending, sent), outcome) in releases.into_iter().zip(outcomes) {
            self.settle(net, pending, sent, outcome);
        }
        node
    }

    /// Sends one pipeline. Marks its releases as sent as soon as they are on their way.
    async fn send(&self, net: &Net, releases: &mut [(PendingRelease, Sent)]) -> Vec<CallOutcome> {
        let slot = releases[0].0.primitive.key().slot();
        let deadline = net.world.now() + timeouts::REQUEST;
        let session = match net.router.session(slot, LinkClass::Command, deadline).await {
            Ok(session) => session,
            Err(error) => {
                let failure = CallOutcome::Failed(Failure::NotSent(error.to_string()));
                return vec![failure; releases.len()];
            }
        };
        let pending = releases.iter().map(|(pending, _)| pending);
        let calls: Vec<_> = pending.map(|one| one.call(self.retention)).collect();
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
                self.queue.sent(releases);
            }
            let pending = releases.iter().map(|(pending, _)| pending);
            pending.for_each(PendingRelease::prompt_next_waiter);
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
    fn settle(&self, net: &Net, pending: PendingRelease, mut sent: Sent, outcome: CallOutcome) {
        let now = net.world.now();
        let labels = Labels::of(pending.primitive.as_ref());
        let mut refused = false;
        let bare = matches!(outcome, CallOutcome::Bare(_));
        let failure = match outcome {
            CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => {
                self.refused.store(false, Ordering::Relaxed);
                pending.answered(&self.local_queues, &net.world.strays, &reply);
                self.heed(pending.primitive.as_ref(), &reply);
                if bare {
                    sent.bare = true;
                    return self.repeat_whole(net, pending, sent);
                }
                return self.done(&pending, sent, true);
            }
            CallOutcome::Failed(failure) => failure,
        };
        if failure.effect().ends_release(pending.copies) {
            // The release of an overwritten hold calls no waiter.
            self.local_queues.prompt_first(pending.primitive.key());
            return self.done(&pending, sent, true);
        }
        if sent.bare {
            return self.repeat_whole(net, pending, sent);
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
        if now >= pending.give_up_at || !self.rules.keeps(Rule::RetryReleases) {
            observe::release_given_up(&labels, pending.primitive.name(), &why);
            // It may have granted to a waiter of this client, which knows nothing of it.
            self.local_queues.prompt_first(pending.primitive.key());
            return self.done(&pending, sent, false);
        }
        self.put_back(net, pending, sent, refused);
    }

    /// Sends a release with all keys later, after the server has run it without those of the queue.
    /// Ends the release if its keys stay split. An entry that is left is withdrawn when it is its
    /// turn.
    fn repeat_whole(&self, net: &Net, mut pending: PendingRelease, sent: Sent) {
        let over = net.world.now() >= pending.give_up_at || sent.failures >= WHOLE_TRIES;
        if over || self.queue.is_closing() || !self.rules.keeps(Rule::RetryReleases) {
            return self.done(&pending, sent, false);
        }
        // The release has prompted the local waiter.
        pending.next_waiter = None;
        self.put_back(net, pending, sent, true);
    }

    /// Sends a release again later. Requests for the name do not wait for one that was refused.
    fn put_back(&self, net: &Net, pending: PendingRelease, mut sent: Sent, refused: bool) {
        sent.failures += 1;
        let delay = timeouts::RELEASE_RETRY.delay(sent.failures, net.world.runtime.random());
        let next = net.world.now() + delay;
        self.queue.put_back(pending, sent, refused, next);
    }

    /// Records the end of a release, which has `succeeded` or was given up.
    fn done(&self, pending: &PendingRelease, sent: Sent, succeeded: bool) {
        if succeeded && pending.part.is_none() {
            observe::undone(&Labels::of(pending.primitive.as_ref()));
        }
        if self.queue.done(pending, sent) {
            self.drained.notify_waiters();
        }
    }
}

/// The node that owns a slot; `None` if there is only one node. Slots without a known owner share
/// `None`, too.
type Node = Option<Address>;

fn node(net: &Net, item: &Item) -> Node {
    if net.router.is_fixed() {
        None
    } else {
        net.router.node(item.slot())
    }
}

/// How often a release is tried until the keys of its name are together. That takes about 10 s.
const WHOLE_TRIES: u32 = 16;

/// The maximum number of releases in one pipeline.
const CHUNK: usize = 256;

/// The maximum number of concurrent pipelines to one node while a caller waits for queued releases.
const MOST_ROUNDS: usize = 16;
