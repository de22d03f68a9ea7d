//! The watchdog: one timer for all holds of a client. It sends renewals in pipelines: first to the
//! slot's owner, then to the nodes that its replies name.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::Notify};

use super::{
    Hold,
    releaser::{Node, node},
};
use crate::{
    ErrorKind,
    base::{
        observe,
        primitive::Renewed,
        rules::Rule,
        script::{CallOutcome, Failure, ScriptCall},
        sync::{Mutex, MutexGuard, lock},
        timeouts,
    },
    net::{
        Acknowledged, Dispatch, Limit, LinkClass, Net, Replication, Request, Session, is_settled,
    },
    protocol::{
        hold::LossCause,
        lease::Lease,
        renewal::{Due, Renewal, RenewalTable},
        renewal_window::RenewalWindow,
        time::{Moment, SleepDeadline},
    },
    runtime::Runtime,
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

/// The destination of renewals: a node, and the class of the link.
type Route = (Node, LinkClass);

type Windows = BTreeMap<Route, RenewalWindow<Weak<Hold>>>;

/// One renewal in progress.
struct Job {
    hold: Arc<Hold>,
    span: Duration,
    call: ScriptCall,
}

/// A pipeline of renewals, with its connection and its limits.
struct Pipeline {
    session: Arc<Session>,
    jobs: Vec<Job>,
    sent: Moment,
    /// The last server time at which its renewals may act.
    act_before: u64,
    limit: Limit,
    /// The replicas that have to confirm the renewals, if any have to.
    replication: Option<Replication>,
}

/// The confirmation of a pipeline of renewals by replicas.
enum Confirmed {
    /// No replica had to confirm.
    Unasked,
    /// The number of confirmations is unknown.
    Unknown,
    /// The number of confirmations, and the largest number of replicas that the node has been seen
    /// to have.
    By(u32, u32),
}

/// A pipeline that its node has answered, or that has failed.
struct Done {
    route: Route,
    count: usize,
    sent: Moment,
    end: End,
    /// The renewals that the node has refused, or that belong to another node, and its answers.
    rest: Option<(Pipeline, Vec<CallOutcome>)>,
}

/// The outcome of a pipeline.
enum End {
    /// The node answered. Usually that takes `usual` at most, and the client waits for `patience`.
    Answered {
        usual: Duration,
        patience: Duration,
    },
    Unanswered,
    /// None of its holds needed renewal any more, so nothing was sent.
    Empty,
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
        let (id, hold) = (hold.id, Arc::downgrade(hold));
        let mut plan = self.plan();
        let table = &mut plan.table;
        table.insert(id, renewal, hold, (lease, within), now, random);
        self.wake(plan);
    }

    /// Renews `hold` at `at`, unless its next renewal is under way or due before.
    pub(super) fn hurry(&self, hold: &Hold, renewal: &mut Renewal, at: Moment) {
        let mut plan = self.plan();
        plan.table.hurry(hold.id, renewal, at);
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
        self.plan().table.remove(hold.id, renewal);
    }

    /// Records the end of a renewal of `hold`. Schedules the next one for the lease that was `set`,
    /// counted from `since`. Without a clear answer, the next one comes sooner.
    pub(super) fn answered(
        &self,
        hold: &Arc<Hold>,
        renewal: &mut Renewal,
        set: Option<Duration>,
        since: Moment,
    ) {
        let (id, random, hold) = (hold.id, self.runtime.random(), Arc::downgrade(hold));
        let table = &mut self.plan().table;
        table.answered(id, renewal, hold, set, since, random);
    }

    /// Returns the number of holds in the table.
    pub(crate) fn len(&self) -> usize {
        self.plan().table.len()
    }

    /// Renews until dropped. A node that does not answer delays no other node's renewals.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        let mut windows = Windows::new();
        let mut under_way = FuturesUnordered::new();
        // These occupy no place in a window: the node that they delay, if any, is another one.
        let mut following = FuturesUnordered::new();
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
            End::Answered { usual, patience } => {
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
        let (end, rest) = self.renew_all(net, route.1, jobs.collect(), sent).await;
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
    ) -> (End, Option<(Pipeline, Vec<CallOutcome>)>) {
        if jobs.is_empty() {
            return (End::Empty, None);
        }
        let Some(mut pipeline) = Pipeline::begin(net, class, jobs, sent).await else {
            return (End::Unanswered, None);
        };
        let (outcomes, confirmed) = pipeline.send(net, None).await;
        let now = self.runtime.now();
        let end = if outcomes.iter().any(is_answer) {
            pipeline.end()
        } else {
            End::Unanswered
        };
        let mut refused = Vec::new();
        for (job, outcome) in mem::take(&mut pipeline.jobs).into_iter().zip(outcomes) {
            if is_settled(&outcome) {
                settle(&job, outcome, (sent, now), &confirmed);
            } else {
                pipeline.jobs.push(job);
                refused.push(outcome);
            }
        }
        (end, (!refused.is_empty()).then_some((pipeline, refused)))
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
    let node = node(net, hold.primitive.key().slot());
    if durable {
        ((node, LinkClass::Durable), 1)
    } else {
        ((node, LinkClass::Renewal), usize::MAX)
    }
}

/// Sends the refused or redirected renewals again, to the nodes that the replies name.
async fn follow(net: &Net, (pipeline, outcomes): (Pipeline, Vec<CallOutcome>)) {
    let (outcomes, confirmed) = pipeline.send(net, Some(outcomes)).await;
    let times = (pipeline.sent, net.world.now());
    for (job, outcome) in pipeline.jobs.iter().zip(outcomes) {
        settle(job, outcome, times, &confirmed);
    }
}

impl Pipeline {
    /// Waits for a session with the node of `jobs`. Without one, the renewals have failed.
    async fn begin(net: &Net, class: LinkClass, jobs: Vec<Job>, sent: Moment) -> Option<Self> {
        let shortest = jobs.iter().map(|job| job.span).min().unwrap_or_default();
        let silence = Lease::renewed(shortest)
            .unwrap_or_default()
            .attempt_timeout();
        let slot = jobs.first().map_or(0, |job| job.call.slot());
        let session = match net.router.session(slot, class, sent + silence).await {
            Ok(session) => session,
            Err(error) => {
                let failure = Failure::NotSent(error.to_string());
                for job in &jobs {
                    failed(&job.hold, failure.clone().into_error(true));
                }
                return None;
            }
        };
        let replication = (class == LinkClass::Durable).then(|| {
            let needs = |replicas| jobs.iter().map(|job| job.hold.needs(replicas)).max();
            Replication::of_session(&session, |replicas| needs(replicas).unwrap_or(0), silence)
        });
        Some(Self {
            act_before: session.act_before(net.world.now()),
            session,
            jobs,
            sent,
            limit: Limit {
                silence,
                deadline: sent + shortest / 3,
            },
            replication,
        })
    }

    /// Sends it to its node only. With the `outcomes` of that, continues with the renewals that the
    /// node has refused or redirected.
    async fn send(
        &self,
        net: &Net,
        outcomes: Option<Vec<CallOutcome>>,
    ) -> (Vec<CallOutcome>, Confirmed) {
        let calls: Vec<_> = self.jobs.iter().map(|job| &job.call).collect();
        let request = Request {
            calls: &calls,
            act_before: self.act_before,
            limit: self.limit,
            replication: self.replication,
            dispatch: Dispatch::AtOnce,
            checked: None,
        };
        let response = match outcomes {
            None => net.send_once(&self.session, &request).await,
            Some(outcomes) => net.settle(&self.session, &request, outcomes).await,
        };
        let confirmed = match (self.replication, response.acknowledged) {
            (None, _) => Confirmed::Unasked,
            (Some(wanted), Some(Acknowledged::By(count))) => Confirmed::By(count, wanted.of),
            (Some(_), _) => Confirmed::Unknown,
        };
        (response.outcomes, confirmed)
    }

    /// Returns its end, if the node has answered.
    fn end(&self) -> End {
        let patience = self.limit.silence;
        // The wait for replicas may take as long as the wait for an answer.
        let waits = self.replication.map_or(Duration::ZERO, |_| patience);
        End::Answered {
            usual: self.session.usual + waits,
            patience,
        }
    }
}

impl Confirmed {
    /// Tells whether the confirmations are enough for the guards of this hold.
    fn suffices(&self, hold: &Hold) -> bool {
        let client = &hold.client;
        match *self {
            _ if !client.keeps(Rule::ConfirmRenewals) => true,
            Self::Unasked if !client.keeps(Rule::RenewDurably) => true,
            // A guard that requires replicas may have joined since.
            Self::Unasked => !hold.is_durable(),
            Self::Unknown => false,
            Self::By(confirmed, replicas) => confirmed >= hold.needs(replicas),
        }
    }
}

/// Passes the outcome of one renewal, which was sent and answered at these times, on to its hold.
fn settle(job: &Job, outcome: CallOutcome, (sent, now): (Moment, Moment), confirmed: &Confirmed) {
    let Job { hold, span, .. } = job;
    let reply = match outcome {
        CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => reply,
        CallOutcome::Failed(failure) => {
            let error = failure.into_error(true);
            if error.kind() == ErrorKind::WrongKind {
                // A value of another program has the key, so the hold is not there.
                observe::renewal_failed(&hold.labels(), hold.primitive.name(), &error);
                return hold.over(LossCause::Forgotten);
            }
            return failed(hold, error);
        }
    };
    match hold.primitive.renewed(job.call.script(), &reply) {
        Ok(Renewed::Renewed | Renewed::Ends(_)) if !confirmed.suffices(hold) => {
            failed(hold, "too few replicas have confirmed it");
        }
        Ok(Renewed::Ends(rest)) => {
            let rest = hold.client.lease_of_holder(rest);
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
    observe::renewal_failed(&hold.labels(), hold.primitive.name(), &why);
    hold.not_renewed();
}

/// Tells whether the server has replied. A server that refuses, or redirects to another, is alive.
const fn is_answer(outcome: &CallOutcome) -> bool {
    !matches!(
        outcome,
        CallOutcome::Failed(Failure::NotSent(_) | Failure::Unknown(_))
    )
}
