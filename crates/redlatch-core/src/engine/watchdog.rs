//! The watchdog: one timer for all holds of a client. It sends renewals in pipelines.

mod pipeline;

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::Notify};

use self::pipeline::{Confirmed, Job, Pipeline, Timing};
use super::Hold;
use crate::{
    base::{
        error::ErrorKind,
        observe,
        primitive::Renewed,
        script::{CallOutcome, Failure},
        sync::{Mutex, MutexGuard, lock},
        timeouts,
    },
    net::{LinkClass, Net, is_settled},
    protocol::{
        hold::LossCause,
        renewal::{Due, Renewal, RenewalTable},
        renewal_window::RenewalWindow,
        time::{Moment, SleepDeadline},
    },
    runtime::{Address, Runtime},
};

/// Renews the holds that are due. Nothing else renews without a caller's request.
#[derive(Debug)]
pub(crate) struct Watchdog {
    runtime: Arc<dyn Runtime>,
    plan: Mutex<Plan>,
    nudge: Notify,
}

#[derive(Debug)]
struct Plan {
    table: RenewalTable<Weak<Hold>>,
    sleep_deadline: SleepDeadline,
}

/// The destination of renewals: a node, and the class of the link. The node is `None` if there is
/// only one node, or if the slot's owner is unknown.
type Route = (Option<Address>, LinkClass);

type Windows = BTreeMap<Route, RenewalWindow<Weak<Hold>>>;

/// A pipeline that its node has answered, or that has failed.
struct Done {
    route: Route,
    count: usize,
    sent: Moment,
    end: End,
    rest: Option<Rest>,
}

/// The outcome of a pipeline.
enum End {
    /// The node answered.
    Answered(Timing),
    Unanswered,
    /// None of its holds needed renewal any more, so nothing was sent.
    Empty,
}

/// Renewals that their node has refused, or that belong to another node.
struct Rest {
    pipeline: Pipeline,
    jobs: Vec<Job>,
    outcomes: Vec<CallOutcome>,
}

impl Watchdog {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self {
            runtime,
            plan: Mutex::new(Plan {
                table: RenewalTable::default(),
                sleep_deadline: SleepDeadline::endless(),
            }),
            nudge: Notify::new(),
        }
    }

    /// Renews the lease of `hold` until the hold is removed, for the first time `within` a time if
    /// one is given.
    pub(super) fn insert(
        &self,
        hold: &Arc<Hold>,
        renewal: &mut Renewal,
        lease: Duration,
        within: Option<Duration>,
    ) {
        let (now, random) = (self.runtime.now(), self.runtime.random());
        let (id, hold) = (hold.id(), Arc::downgrade(hold));
        let mut plan = self.plan();
        let table = &mut plan.table;
        table.insert(id, renewal, hold, (lease, within), now, random);
        self.wake(plan);
    }

    /// Renews `hold` at `at`, unless its next renewal is under way or due before.
    pub(super) fn hurry(&self, hold: &Hold, renewal: &mut Renewal, at: Moment) {
        let mut plan = self.plan();
        plan.table.hurry(hold.id(), renewal, at);
        self.wake(plan);
    }

    /// Wakes the task if a renewal of `plan` is due before the task wakes by itself.
    fn wake(&self, mut plan: MutexGuard<'_, Plan>) {
        let first = plan.table.next_due();
        let sooner = first.is_some_and(|first| plan.sleep_deadline.is_cut_short(first));
        drop(plan);
        if sooner {
            self.nudge.notify_one();
        }
    }

    pub(super) fn remove(&self, hold: &Hold, renewal: &mut Renewal) {
        self.plan().table.remove(hold.id(), renewal);
    }

    /// Records that the renewal of `hold` sent at `sent` succeeded, and schedules the next for
    /// `lease`.
    pub(super) fn renewed(
        &self,
        hold: &Arc<Hold>,
        renewal: &mut Renewal,
        lease: Duration,
        sent: Moment,
    ) {
        let (id, random, hold) = (hold.id(), self.runtime.random(), Arc::downgrade(hold));
        let table = &mut self.plan().table;
        table.renewed(id, renewal, hold, lease, sent, random);
    }

    /// Records that the renewal of `hold` had no clear answer, and schedules the next one sooner.
    pub(super) fn failed(&self, hold: &Arc<Hold>, renewal: &mut Renewal) {
        let (now, random) = (self.runtime.now(), self.runtime.random());
        let (id, hold) = (hold.id(), Arc::downgrade(hold));
        let table = &mut self.plan().table;
        table.failed(id, renewal, hold, now, random);
    }

    /// Returns the number of holds in the table.
    pub(crate) fn len(&self) -> usize {
        self.plan().table.len()
    }

    /// Renews until shutdown. A node that does not answer delays no other node's renewals.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        let mut windows = Windows::new();
        let mut under_way = FuturesUnordered::new();
        // These occupy no place in a window: the node that they delay, if any, is another one.
        let mut following = FuturesUnordered::new();
        let mut ended = pin!(net.world.ended());
        loop {
            self.gather(&net, &mut windows);
            for (route, window) in &mut windows {
                while let Some(taken) = window.take() {
                    under_way.push(self.renew(&net, route.clone(), taken));
                }
            }
            let next = self.sleeps();
            select! {
                biased;
                () = &mut ended => return,
                Some(done) = under_way.next(), if !under_way.is_empty() => {
                    if let Some(window) = windows.get_mut(&done.route) {
                        self.finished(&net, window, &done);
                    }
                    following.extend(done.rest.map(|rest| follow(&net, rest)));
                }
                Some(()) = following.next(), if !following.is_empty() => {}
                () = self.nudge.notified() => {}
                () = self.runtime.sleep_until(next) => {}
            }
        }
    }

    /// Moves the holds that are due into the window of their node.
    fn gather(&self, net: &Net, windows: &mut Windows) {
        let now = self.runtime.now();
        let due = {
            let table = &mut self.plan().table;
            if table.next_due().is_none_or(|due| due > now) {
                return;
            }
            // Holds that are due a moment later are included, so that many holds need few
            // pipelines.
            table.take_due(now + timeouts::RENEWAL_GATHER)
        };
        for Due { id, at, payload } in due {
            // A hold without guards is removed from the table, so it is safe to skip a hold that is
            // gone.
            let Some(hold) = payload.upgrade() else {
                continue;
            };
            let Some((deadline, durable)) = hold.due(at) else {
                continue;
            };
            let (route, most_pipelines) = route(net, &hold, durable);
            let window = windows
                .entry(route)
                .or_insert_with(|| RenewalWindow::new(most_pipelines));
            window.push(deadline, id, payload);
        }
        if windows.len() > 1 {
            let masters = net.router.masters();
            windows.retain(|(node, _), window| {
                let known = node.as_ref().is_none_or(|node| masters.contains(node));
                known || !window.is_idle()
            });
        }
    }

    /// Updates the window of a node after one of its pipelines has ended.
    fn finished(&self, net: &Net, window: &mut RenewalWindow<Weak<Hold>>, done: &Done) {
        let Done { count, sent, .. } = *done;
        match done.end {
            End::Answered(Timing { usual, patience }) => {
                window.answered(count, sent, self.runtime.now(), usual, patience);
            }
            End::Empty => window.dropped(count),
            End::Unanswered => {
                if window.unanswered(count, sent, self.runtime.now()) {
                    // The node's other connections may be idle, so they could not detect the
                    // failure themselves.
                    net.router.suspect(done.route.0.as_ref());
                    // No request was sent for the waiting renewals, but their holders have to learn
                    // of the outage.
                    for hold in window.waiting().filter_map(Weak::upgrade) {
                        hold.troubled();
                    }
                }
            }
        }
    }

    /// Builds the renewal of a hold; `None` if the hold needs no renewal any more.
    fn job(hold: &Weak<Hold>, now: Moment) -> Option<Job> {
        let hold = hold.upgrade()?;
        // Reading the state reports a loss.
        hold.state(now);
        let span = hold.renewing_or_unscheduled(now)?;
        let call = hold.renewal(now, span);
        Some(Job { hold, span, call })
    }

    /// Renews these holds of one node with one pipeline.
    async fn renew(&self, net: &Net, route: Route, taken: Vec<(u64, Weak<Hold>)>) -> Done {
        let (sent, count) = (self.runtime.now(), taken.len());
        let jobs = taken.iter().filter_map(|(_, hold)| Self::job(hold, sent));
        let jobs: Vec<_> = jobs.collect();
        let (end, rest) = if jobs.is_empty() {
            (End::Empty, None)
        } else {
            self.renew_all(net, route.1, jobs, sent).await
        };
        Done {
            route,
            count,
            sent,
            end,
            rest,
        }
    }

    /// Sends the renewals and processes the replies. Returns the refused and redirected renewals
    /// separately, so that other nodes do not delay this one.
    async fn renew_all(
        &self,
        net: &Net,
        class: LinkClass,
        jobs: Vec<Job>,
        sent: Moment,
    ) -> (End, Option<Rest>) {
        let pipeline = match Pipeline::begin(net, class, &jobs, sent).await {
            Ok(pipeline) => pipeline,
            Err(error) => {
                let failure = Failure::NotSent(error.to_string());
                for job in &jobs {
                    failed(&job.hold, failure.clone().into_error(true));
                }
                return (End::Unanswered, None);
            }
        };
        let (outcomes, confirmed) = pipeline.send(net, &jobs).await;
        let answered = Settling {
            sent,
            now: self.runtime.now(),
            confirmed,
        };
        let end = if outcomes.iter().any(is_answer) {
            End::Answered(pipeline.timing())
        } else {
            End::Unanswered
        };
        let mut rest = Rest {
            pipeline,
            jobs: Vec::new(),
            outcomes: Vec::new(),
        };
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            if is_settled(&outcome) {
                settle(&job, outcome, &answered);
            } else {
                rest.jobs.push(job);
                rest.outcomes.push(outcome);
            }
        }
        (end, (!rest.jobs.is_empty()).then_some(rest))
    }

    /// Records that the task goes to sleep. Returns the time at which the next renewal may be due.
    fn sleeps(&self) -> Moment {
        let mut plan = self.plan();
        let first = plan.table.next_due();
        plan.sleep_deadline.resume(self.runtime.now(), first)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }
}

/// Returns the destination of the renewals of `hold`, and the maximum number of concurrent
/// pipelines for it. A wait for replicas blocks the requests behind it on the same link.
fn route(net: &Net, hold: &Hold, durable: bool) -> (Route, usize) {
    let node = if net.router.is_fixed() {
        None
    } else {
        net.router.node(hold.primitive().key().slot())
    };
    if durable {
        ((node, LinkClass::Durable), 1)
    } else {
        ((node, LinkClass::Renewal), usize::MAX)
    }
}

/// Sends the refused or redirected renewals again, to the nodes that the replies name.
async fn follow(net: &Net, rest: Rest) {
    let following = rest.pipeline.follow(net, &rest.jobs, rest.outcomes);
    let (outcomes, confirmed) = following.await;
    let answered = Settling {
        sent: rest.pipeline.sent(),
        now: net.world.now(),
        confirmed,
    };
    for (job, outcome) in rest.jobs.iter().zip(outcomes) {
        settle(job, outcome, &answered);
    }
}

/// The properties that all answers of one pipeline share: when it was sent and answered, and its
/// confirmations.
struct Settling {
    sent: Moment,
    now: Moment,
    confirmed: Confirmed,
}

/// Passes the outcome of one renewal on to its hold.
fn settle(job: &Job, outcome: CallOutcome, answered: &Settling) {
    let Job { hold, span, .. } = job;
    let (sent, now) = (answered.sent, answered.now);
    let reply = match outcome {
        CallOutcome::Replied(reply) => reply,
        CallOutcome::Failed(failure) => {
            let error = failure.into_error(true);
            if error.kind() == ErrorKind::WrongKind {
                // A value of another program has the key, so the hold is not there.
                observe::renewal_failed(&hold.labels(), hold.primitive().name(), &error);
                return hold.over(LossCause::Forgotten);
            }
            return failed(hold, error);
        }
    };
    match hold.primitive().renewed(&reply) {
        Ok(Renewed::Renewed | Renewed::Ends(_)) if !answered.confirmed.suffices(job) => {
            failed(hold, "too few replicas have confirmed it");
        }
        Ok(Renewed::Ends(rest)) => {
            let rest = hold.client().lease_of_holder(rest);
            hold.renewed(sent, now, rest, *span);
        }
        Ok(Renewed::Renewed) => {
            let late = !hold.is_unconfirmed() && hold.valid_until() - now < *span / 3;
            observe::renewed(&hold.labels(), late);
            hold.renewed(sent, now, *span, *span);
        }
        Ok(Renewed::Lost(cause)) => hold.over(cause),
        Ok(Renewed::Late) => failed(hold, "it came too late to act"),
        Err(error) => failed(hold, error),
    }
}

fn failed(hold: &Arc<Hold>, why: impl std::fmt::Display) {
    observe::renewal_failed(&hold.labels(), hold.primitive().name(), &why);
    hold.not_renewed();
}

/// Tells whether the server has replied. A server that refuses, or redirects to another, is alive.
const fn is_answer(outcome: &CallOutcome) -> bool {
    !matches!(
        outcome,
        CallOutcome::Failed(Failure::NotSent(_) | Failure::Unknown(_))
    )
}
