//! The background releaser: what guards and abandoned attempts leave behind is ended by it, whatever else happens.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    select,
    sync::{Notify, watch},
};

use super::{
    Turns,
    succession::{Successor, ahead_of_successors},
};
use crate::{
    Owner,
    net::{Limit, LinkClass, Net},
    observe::{self, Labels},
    owner::AttemptId,
    presence::Presence,
    primitive::{Primitive, ReleaseRequest, Token},
    protocol::{backoff::Backoff, time::Moment},
    rules::{Rule, Rules},
    script::{CallOutcome, Failure, ScriptCall},
    seam::Address,
};

/// What is left of an attempt that is to end.
#[derive(Clone, Debug)]
pub(crate) struct Parting {
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) owner: Owner,
    pub(crate) attempt: AttemptId,
    pub(crate) token: Option<Token>,
    pub(crate) serial: Option<u64>,
    pub(crate) void_by: Option<u64>,
    pub(crate) address: String,
    /// Whether it undoes an acquisition that nobody waits for any more, and not a delivered hold.
    pub(crate) undo: bool,
    /// Units of a hold that can be divided which stay, and which are gone for good.
    pub(crate) left: u32,
    pub(crate) forgotten: u32,
    /// The waiter that asks right behind it.
    pub(super) successor: Option<Box<Successor>>,
    /// When the server has surely ended it by itself.
    pub(crate) give_up_at: Moment,
}

impl Parting {
    pub(super) fn call(&self, retention: Duration) -> ScriptCall {
        self.primitive.release(&ReleaseRequest {
            owner: &self.owner,
            attempt: &self.attempt,
            token: self.token,
            serial: self.serial,
            void_by: self.void_by,
            retention,
            address: &self.address,
            left: self.left,
            forgotten: self.forgotten,
        })
    }
}

/// The queue of partings. Filled from any context; emptied by one task.
#[derive(Debug)]
pub(crate) struct Releaser {
    queue: Mutex<Queue>,
    nudge: Notify,
    /// Told when the queue has run empty.
    drained: Notify,
    shutdown: watch::Sender<bool>,
    retention: Duration,
    timeout: Duration,
    rules: Rules,
    turns: Arc<Turns>,
    /// The server has refused a release, and has taken none since.
    refused: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Item>,
    under_way: usize,
    closing: bool,
    /// All background work has ended: what comes now was parted by `close`, or ends with its lease.
    stopped: bool,
}

#[derive(Debug)]
struct Item {
    parting: Parting,
    failures: u32,
    next: Moment,
}

impl Releaser {
    /// Starts empty.
    pub(crate) fn new(
        shutdown: watch::Sender<bool>,
        retention: Duration,
        timeout: Duration,
        rules: Rules,
        turns: Arc<Turns>,
    ) -> Self {
        Self {
            queue: Mutex::default(),
            nudge: Notify::new(),
            drained: Notify::new(),
            shutdown,
            retention,
            timeout,
            rules,
            turns,
            refused: AtomicBool::new(false),
        }
    }

    /// Queues a parting.
    pub(crate) fn push(&self, parting: Parting, now: Moment) {
        let item = Item {
            parting,
            failures: 0,
            next: now,
        };
        {
            let mut queue = self.queue();
            if queue.stopped {
                return;
            }
            queue.waiting.push(item);
        }
        self.nudge.notify_one();
    }

    /// Returns the number of partings that are not answered.
    pub(crate) fn len(&self) -> usize {
        let queue = self.queue();
        queue.waiting.len() + queue.under_way
    }

    /// Resolves when nothing is left.
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

    /// Ends all background work of the client once nothing is left.
    pub(crate) fn finish(&self) {
        self.queue().closing = true;
        self.nudge.notify_one();
    }

    /// Ends all background work of the client now.
    pub(crate) fn stop(&self) {
        self.shutdown.send_replace(true);
    }

    /// Works the queue off until shutdown.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>, presence: Arc<Presence>) {
        self.work(&net, &presence).await;
        *self.queue() = Queue {
            stopped: true,
            ..Queue::default()
        };
        self.drained.notify_waiters();
    }

    /// Each node is worked off on its own, one round after the other, so that one that does not answer holds up no other.
    async fn work(&self, net: &Net, presence: &Presence) {
        let mut withdrawn = false;
        let mut rounds = FuturesUnordered::new();
        // What has come for the nodes that a round is under way to.
        let mut gathered: BTreeMap<Node, Vec<Item>> = BTreeMap::new();
        let mut due = Vec::new();
        loop {
            let (more, next) = self.take_due(net.world.now());
            due.extend(more);
            for (node, items) in by_node(net, std::mem::take(&mut due)) {
                match gathered.get_mut(&node) {
                    Some(gathered) => gathered.extend(items),
                    None => {
                        gathered.insert(node.clone(), Vec::new());
                        rounds.push(self.round(net, node, items));
                    }
                }
            }
            if rounds.is_empty() && self.is_done() {
                if withdrawn {
                    self.stop();
                } else {
                    presence.withdraw(net).await;
                    withdrawn = true;
                    continue;
                }
            }
            select! {
                biased;
                () = net.world.ended() => return,
                Some(node) = rounds.next(), if !rounds.is_empty() => {
                    due = gathered.remove(&node).unwrap_or_default();
                }
                () = self.nudge.notified() => {}
                () = net.world.runtime.sleep_until(next) => {}
            }
        }
    }

    async fn round(&self, net: &Net, node: Node, items: Vec<Item>) -> Node {
        self.work_off(net, items).await;
        node
    }

    /// Sends the items of one node, chunk after chunk.
    async fn work_off(&self, net: &Net, mut items: Vec<Item>) {
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(CHUNK));
            let chunk = std::mem::replace(&mut items, rest);
            let outcomes = self.send(net, &chunk).await;
            for (item, outcome) in chunk.into_iter().zip(outcomes) {
                self.settle(net, item, outcome);
            }
        }
    }

    async fn send(&self, net: &Net, chunk: &[Item]) -> Vec<CallOutcome> {
        let slot = chunk[0].parting.primitive.key().slot();
        let deadline = net.world.now() + self.timeout;
        let session = match net.session(slot, LinkClass::Command, deadline).await {
            Ok(session) => session,
            Err(error) => {
                let failure = CallOutcome::Failed(Failure::NotSent(error.to_string()));
                return vec![failure; chunk.len()];
            }
        };
        let calls: Vec<_> = chunk
            .iter()
            .map(|item| item.parting.call(self.retention))
            .collect();
        let calls: Vec<_> = calls.iter().collect();
        let by = session.by(net.world.now());
        let limit = Limit {
            silence: self.timeout,
            deadline: net.world.now() + self.timeout * 10,
        };
        let sending = pin!(net.send(&session, &calls, by, limit));
        ahead_of_successors(sending, chunk.iter().map(|item| &item.parting)).await
    }

    fn settle(&self, net: &Net, mut item: Item, outcome: CallOutcome) {
        let now = net.world.now();
        let labels = Labels::of(item.parting.primitive.as_ref());
        let why = match outcome {
            CallOutcome::Replied(reply) => {
                self.refused.store(false, Ordering::Relaxed);
                item.parting.answered(&self.turns, &reply);
                if item.parting.undo {
                    observe::undone(&labels);
                }
                return self.done();
            }
            // A right, or memory, may be given back before the server ends it by itself.
            CallOutcome::Failed(Failure::Fatal(error)) => {
                if !self.refused.swap(true, Ordering::Relaxed) {
                    observe::release_refused(&labels, item.parting.primitive.name(), &error);
                }
                error
            }
            CallOutcome::Failed(failure) => failure.into_error(true),
        };
        if now >= item.parting.give_up_at || !self.rules.keeps(Rule::RetryPartings) {
            observe::release_given_up(&labels, item.parting.primitive.name(), &why);
            return self.done();
        }
        item.failures += 1;
        item.next = now + BACKOFF.delay(item.failures, net.world.runtime.random());
        let mut queue = self.queue();
        queue.under_way -= 1;
        queue.waiting.push(item);
    }

    fn done(&self) {
        let mut queue = self.queue();
        queue.under_way -= 1;
        if queue.under_way == 0 && queue.waiting.is_empty() {
            self.drained.notify_waiters();
        }
    }

    fn take_due(&self, now: Moment) -> (Vec<Item>, Moment) {
        let mut queue = self.queue();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut queue.waiting)
            .into_iter()
            .partition(|item| item.next <= now);
        let next = later
            .iter()
            .map(|item| item.next)
            .min()
            .unwrap_or(Moment::FAR_FUTURE);
        queue.waiting = later;
        queue.under_way += due.len();
        (due, next)
    }

    fn is_done(&self) -> bool {
        let queue = self.queue();
        queue.closing && queue.waiting.is_empty() && queue.under_way == 0
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is in charge of a slot; what nobody is in charge of waits for somebody together.
type Node = Option<Address>;

fn by_node(net: &Net, items: Vec<Item>) -> BTreeMap<Node, Vec<Item>> {
    let mut nodes: BTreeMap<Node, Vec<Item>> = BTreeMap::new();
    for item in items {
        let slot = item.parting.primitive.key().slot();
        nodes.entry(net.router.node(slot)).or_default().push(item);
    }
    nodes
}

/// Partings in one pipeline.
const CHUNK: usize = 256;

/// Between tries of a parting that had no clear answer.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1));
