//! The watchdog: one timer for all holds of a client, renewals in pipelines.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::Notify};

use super::Hold;
use crate::{
    net::{Acknowledged, Limit, LinkClass, Net, Session},
    observe,
    primitive::Renewed,
    protocol::{lane::Lane, lease::Lease, renewal::RenewalTable, time::Moment},
    script::{CallOutcome, Failure, ScriptCall},
    seam::{Address, Runtime},
};

/// Renews what is due. The only place that renews unasked.
#[derive(Debug)]
pub(crate) struct Watchdog {
    runtime: Arc<dyn Runtime>,
    plan: Mutex<Plan>,
    nudge: Notify,
}

#[derive(Debug)]
struct Plan {
    table: RenewalTable<Weak<Hold>>,
    /// Until when the task sleeps. Most holds are gone before they are due; none of them wakes it.
    asleep_until: Moment,
}

/// Where renewals go: a node, unless there is but one or nobody is known to be in charge, and the class of the link.
type Route = (Option<Address>, LinkClass);

type Lanes = BTreeMap<Route, Lane<Weak<Hold>>>;

/// One renewal under way.
struct Job {
    id: u64,
    hold: Arc<Hold>,
    span: Duration,
    call: ScriptCall,
}

/// A pipeline that is over.
struct Done {
    route: Route,
    count: usize,
    sent: Moment,
    end: End,
}

/// What became of it.
enum End {
    /// There was an answer.
    Answered(Timing),
    Unanswered,
    /// Nothing in it was to be renewed any more.
    Empty,
}

/// How long one answer takes at most that waits for nobody, and how long one is waited for.
#[derive(Clone, Copy, Default)]
struct Timing {
    usual: Duration,
    patience: Duration,
}

impl Watchdog {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self {
            runtime,
            plan: Mutex::new(Plan {
                table: RenewalTable::default(),
                asleep_until: Moment::FAR_FUTURE,
            }),
            nudge: Notify::new(),
        }
    }

    /// Keeps up the lease of `hold` until it is removed.
    pub(super) fn insert(&self, id: u64, hold: Weak<Hold>, lease: Duration) {
        let (now, random) = (self.runtime.now(), self.runtime.random());
        let mut plan = self.plan();
        plan.table.insert(id, hold, lease, now, random);
        let next = plan.next();
        let sooner = next < plan.asleep_until;
        if sooner {
            plan.asleep_until = next;
        }
        drop(plan);
        if sooner {
            self.nudge.notify_one();
        }
    }

    pub(super) fn remove(&self, id: u64) {
        self.plan().table.remove(id);
    }

    /// Returns the number of holds that are renewed.
    pub(crate) fn len(&self) -> usize {
        self.plan().table.len()
    }

    /// Renews until shutdown. A node that does not answer holds up nobody else's renewals.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        let mut lanes = Lanes::new();
        let mut under_way = FuturesUnordered::new();
        let mut ended = pin!(net.world.ended());
        loop {
            self.gather(&net, &mut lanes);
            for (route, lane) in &mut lanes {
                while let Some(taken) = lane.take() {
                    under_way.push(self.renew(&net, route.clone(), taken));
                }
            }
            let next = self.sleeps();
            select! {
                biased;
                () = &mut ended => return,
                Some(done) = under_way.next(), if !under_way.is_empty() => {
                    if let Some(lane) = lanes.get_mut(&done.route) {
                        self.finished(lane, &done);
                    }
                }
                () = self.nudge.notified() => {}
                () = self.runtime.sleep_until(next) => {}
            }
        }
    }

    /// Puts what is due into the lane of its node.
    fn gather(&self, net: &Net, lanes: &mut Lanes) {
        let now = self.runtime.now();
        let due = {
            let table = &mut self.plan().table;
            if table.next_due().is_none_or(|due| due > now) {
                return;
            }
            // What is due a moment later goes along, so that many holds make few pipelines.
            table.take_due(now + GATHER)
        };
        for (id, weak) in due {
            let Some(hold) = weak.upgrade() else {
                self.remove(id);
                continue;
            };
            let (route, most_pipelines) = route(net, &hold);
            let lane = lanes
                .entry(route)
                .or_insert_with(|| Lane::new(most_pipelines));
            lane.push(hold.valid_until(), id, weak);
        }
        if lanes.len() > 1 {
            let masters = net.router.masters();
            lanes.retain(|(node, _), lane| {
                let known = node.as_ref().is_none_or(|node| masters.contains(node));
                known || !lane.is_idle()
            });
        }
    }

    fn finished(&self, lane: &mut Lane<Weak<Hold>>, done: &Done) {
        let Done { count, sent, .. } = *done;
        match done.end {
            End::Answered(Timing { usual, patience }) => {
                lane.answered(count, sent, self.runtime.now(), usual, patience);
            }
            End::Empty => lane.dropped(count),
            End::Unanswered => {
                if lane.unanswered(count, sent, self.runtime.now()) {
                    // Nobody has asked for these; but who holds one shall know.
                    for hold in lane.waiting().filter_map(Weak::upgrade) {
                        hold.troubled();
                    }
                }
            }
        }
    }

    fn job(&self, id: u64, hold: &Weak<Hold>, now: Moment) -> Option<Job> {
        let Some(hold) = hold.upgrade() else {
            self.remove(id);
            return None;
        };
        // Whoever looks tells of a loss.
        hold.state(now);
        let span = hold.renewing_or_unscheduled(now)?;
        let call = hold.renewal(span);
        Some(Job {
            id,
            hold,
            span,
            call,
        })
    }

    /// Renews these holds of one node by one pipeline.
    async fn renew(&self, net: &Net, route: Route, taken: Vec<(u64, Weak<Hold>)>) -> Done {
        let (sent, count) = (self.runtime.now(), taken.len());
        let jobs = taken
            .iter()
            .filter_map(|(id, hold)| self.job(*id, hold, sent));
        let jobs: Vec<_> = jobs.collect();
        let end = if jobs.is_empty() {
            End::Empty
        } else {
            self.renew_all(net, route.1, &jobs, sent).await
        };
        Done {
            route,
            count,
            sent,
            end,
        }
    }

    async fn renew_all(&self, net: &Net, class: LinkClass, jobs: &[Job], sent: Moment) -> End {
        let (outcomes, confirmed, timing) = self.send(net, class, jobs, sent).await;
        let answered = outcomes.iter().any(is_answer);
        for (job, outcome) in jobs.iter().zip(outcomes) {
            self.settle(job, outcome, sent, &confirmed);
        }
        if answered {
            End::Answered(timing)
        } else {
            End::Unanswered
        }
    }

    async fn send(
        &self,
        net: &Net,
        class: LinkClass,
        jobs: &[Job],
        sent: Moment,
    ) -> (Vec<CallOutcome>, Confirmed, Timing) {
        let shortest = jobs.iter().map(|job| job.span).min().unwrap_or_default();
        let silence = Lease::renewed(shortest)
            .unwrap_or_default()
            .attempt_timeout();
        let slot = jobs[0].call.slot();
        let session = match net.session(slot, class, sent + silence).await {
            Ok(session) => session,
            Err(error) => {
                let failure = CallOutcome::Failed(Failure::NotSent(error.to_string()));
                return (
                    vec![failure; jobs.len()],
                    Confirmed::Unasked,
                    Timing::default(),
                );
            }
        };
        let calls: Vec<_> = jobs.iter().map(|job| &job.call).collect();
        let limit = Limit {
            silence,
            deadline: sent + shortest / 3,
        };
        let mut timing = Timing {
            usual: session.usual(),
            patience: silence,
        };
        if class == LinkClass::Durable {
            let sending = self.send_durably(net, &session, jobs, &calls, limit);
            let (outcomes, confirmed) = sending.await;
            // Replicas are waited for as long as for an answer.
            timing.usual += silence;
            return (outcomes, confirmed, timing);
        }
        let by = session.by(self.runtime.now());
        let outcomes = net.send(&session, &calls, by, limit).await;
        (outcomes, Confirmed::Unasked, timing)
    }

    async fn send_durably(
        &self,
        net: &Net,
        session: &Session,
        jobs: &[Job],
        calls: &[&ScriptCall],
        limit: Limit,
    ) -> (Vec<CallOutcome>, Confirmed) {
        let replicas = session.replicas();
        let needed = jobs.iter().map(|job| job.hold.needs(replicas)).max();
        let needed = needed.unwrap_or(0);
        let by = session.by(self.runtime.now());
        let (outcomes, acknowledged) = net
            .send_durably(session, calls, by, limit, needed, limit.silence)
            .await;
        let confirmed = match acknowledged {
            Acknowledged::By(confirmed) => Confirmed::By(confirmed, replicas),
            Acknowledged::Unknown | Acknowledged::Refused(_) => Confirmed::Unknown,
        };
        (outcomes, confirmed)
    }

    fn settle(&self, job: &Job, outcome: CallOutcome, sent: Moment, confirmed: &Confirmed) {
        let reply = match outcome {
            CallOutcome::Replied(reply) => reply,
            CallOutcome::Failed(failure) => {
                return self.failed(job.id, &job.hold, failure.into_error(true));
            }
        };
        match job.hold.primitive().renewed(&reply) {
            Ok(Renewed::Renewed | Renewed::Ends(_)) if !confirmed.suffices(job) => {
                self.failed(job.id, &job.hold, "too few replicas have confirmed it");
            }
            Ok(Renewed::Ends(span)) => {
                job.hold.extended(sent, span);
                self.plan()
                    .table
                    .renewed(job.id, job.span, sent, self.runtime.random());
            }
            Ok(Renewed::Renewed) => {
                let left = job.hold.valid_until() - self.runtime.now();
                observe::renewed(&job.hold.labels(), left < job.span / 3);
                job.hold.extended(sent, job.span);
                self.plan()
                    .table
                    .renewed(job.id, job.span, sent, self.runtime.random());
            }
            Ok(Renewed::Lost(cause)) => {
                self.remove(job.id);
                job.hold.lose(cause);
            }
            Ok(Renewed::Late) => self.failed(job.id, &job.hold, "it came too late to act"),
            Err(error) => self.failed(job.id, &job.hold, error),
        }
    }

    fn failed(&self, id: u64, hold: &Hold, why: impl std::fmt::Display) {
        observe::renewal_failed(&hold.labels(), hold.primitive().name(), &why);
        hold.troubled();
        self.plan()
            .table
            .failed(id, self.runtime.now(), self.runtime.random());
    }

    /// The task sleeps until something is due; returns when that is.
    fn sleeps(&self) -> Moment {
        let mut plan = self.plan();
        plan.asleep_until = plan.next();
        plan.asleep_until
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    /// Returns when the next is due.
    fn next(&self) -> Moment {
        self.table.next_due().unwrap_or(Moment::FAR_FUTURE)
    }
}

/// Returns where the renewals of `hold` go, and how many pipelines of them may be under way: a wait for replicas blocks those behind it.
fn route(net: &Net, hold: &Hold) -> (Route, usize) {
    let node = if net.router.is_fixed() {
        None
    } else {
        net.router.node(hold.primitive().key().slot())
    };
    if hold.is_durable() {
        ((node, LinkClass::Durable), 1)
    } else {
        ((node, LinkClass::Command), usize::MAX)
    }
}

/// Tells whether the server has said anything. One that refuses, or names another, is alive.
const fn is_answer(outcome: &CallOutcome) -> bool {
    !matches!(
        outcome,
        CallOutcome::Failed(Failure::NotSent(_) | Failure::Unknown(_))
    )
}

/// Which replicas have confirmed a pipeline of renewals.
#[derive(Debug)]
enum Confirmed {
    /// Nobody had to.
    Unasked,
    /// Nobody knows.
    Unknown,
    /// So many, of so many that the node was seen to have at most.
    By(u32, u32),
}

impl Confirmed {
    fn suffices(&self, job: &Job) -> bool {
        match *self {
            // A guard that waits for replicas may have joined since.
            Self::Unasked => !job.hold.is_durable(),
            Self::Unknown => false,
            Self::By(confirmed, replicas) => confirmed >= job.hold.needs(replicas),
        }
    }
}

/// Renewals due within this time go together.
const GATHER: Duration = Duration::from_millis(25);
