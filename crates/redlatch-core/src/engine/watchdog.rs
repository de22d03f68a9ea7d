//! The watchdog: one timer for all holds of a client, renewals in pipelines.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{select, sync::Notify};

use super::Hold;
use crate::{
    net::{Acknowledged, Limit, LinkClass, Net},
    observe,
    primitive::Renewed,
    protocol::{lease::Lease, renewal::RenewalTable, time::Moment},
    script::{CallOutcome, Failure, ScriptCall},
    seam::{Address, Runtime},
};

/// Renews what is due. The only place that renews unasked.
#[derive(Debug)]
pub(crate) struct Watchdog {
    runtime: Arc<dyn Runtime>,
    table: Mutex<RenewalTable<Weak<Hold>>>,
    nudge: Notify,
}

/// One renewal of a round.
struct Job {
    id: u64,
    hold: Arc<Hold>,
    span: Duration,
    call: ScriptCall,
    class: LinkClass,
}

impl Watchdog {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self {
            runtime,
            table: Mutex::default(),
            nudge: Notify::new(),
        }
    }

    /// Keeps up the lease of `hold` until it is removed.
    pub(super) fn insert(&self, id: u64, hold: Weak<Hold>, lease: Duration) {
        let (now, random) = (self.runtime.now(), self.runtime.random());
        let sooner = {
            let mut table = self.table();
            let before = table.next_due();
            table.insert(id, hold, lease, now, random);
            before.is_none_or(|before| table.next_due() < Some(before))
        };
        if sooner {
            self.nudge.notify_one();
        }
    }

    pub(super) fn remove(&self, id: u64) {
        self.table().remove(id);
    }

    /// Returns the number of holds that are renewed.
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }

    /// Renews until shutdown. A node that does not answer holds up nobody else's renewals.
    pub(crate) async fn run(self: Arc<Self>, net: Arc<Net>) {
        loop {
            let now = self.runtime.now();
            let mut nodes: BTreeMap<(Option<Address>, LinkClass), Vec<Job>> = BTreeMap::new();
            for job in self.take_due(now) {
                nodes
                    .entry((net.router.node(job.call.slot()), job.class))
                    .or_default()
                    .push(job);
            }
            for jobs in nodes.into_values() {
                let round = Arc::clone(&self).round(Arc::clone(&net), jobs);
                self.runtime.spawn("renewals", Box::pin(round));
            }
            let next = self.table().next_due().unwrap_or(Moment::FAR_FUTURE);
            select! {
                biased;
                () = net.world.ended() => return,
                () = self.nudge.notified() => {}
                () = self.runtime.sleep_until(next) => {}
            }
        }
    }

    fn take_due(&self, now: Moment) -> Vec<Job> {
        // What is due a moment later goes along, so that many holds make few pipelines.
        let due = self.table().take_due(now + GATHER);
        due.into_iter()
            .filter_map(|(id, hold)| self.job(id, &hold, now))
            .collect()
    }

    fn job(&self, id: u64, hold: &Weak<Hold>, now: Moment) -> Option<Job> {
        let Some(hold) = hold.upgrade() else {
            self.remove(id);
            return None;
        };
        // Whoever looks tells of a loss.
        hold.state(now);
        let Some(span) = hold.renewing(now) else {
            self.remove(id);
            hold.unscheduled();
            return None;
        };
        let call = hold.renewal(span);
        let class = if hold.is_durable() {
            LinkClass::Durable
        } else {
            LinkClass::Command
        };
        Some(Job {
            id,
            hold,
            span,
            call,
            class,
        })
    }

    /// Renews the holds of one node, the next chunk after the reply to the one before.
    async fn round(self: Arc<Self>, net: Arc<Net>, mut jobs: Vec<Job>) {
        while !jobs.is_empty() {
            let rest = jobs.split_off(jobs.len().min(CHUNK));
            let chunk = std::mem::replace(&mut jobs, rest);
            let sent = self.runtime.now();
            let (outcomes, confirmed) = self.send(&net, &chunk, sent).await;
            let silent = outcomes
                .iter()
                .all(|outcome| matches!(outcome, CallOutcome::Failed(_)));
            for (job, outcome) in chunk.into_iter().zip(outcomes) {
                self.settle(&job, outcome, sent, &confirmed);
            }
            if silent {
                for job in std::mem::take(&mut jobs) {
                    self.failed(&job, "the node did not answer the renewals before");
                }
            }
            // What was put back may be due before the timer that runs.
            self.nudge.notify_one();
        }
    }

    async fn send(&self, net: &Net, chunk: &[Job], sent: Moment) -> (Vec<CallOutcome>, Confirmed) {
        let shortest = chunk.iter().map(|job| job.span).min().unwrap_or_default();
        let silence = Lease::renewed(shortest)
            .unwrap_or_default()
            .attempt_timeout();
        let slot = chunk[0].call.slot();
        let class = chunk[0].class;
        let session = match net.session(slot, class, sent + silence).await {
            Ok(session) => session,
            Err(error) => {
                let failure = CallOutcome::Failed(Failure::NotSent(error.to_string()));
                return (vec![failure; chunk.len()], Confirmed::default());
            }
        };
        let calls: Vec<_> = chunk.iter().map(|job| &job.call).collect();
        let by = session.by(self.runtime.now());
        let limit = Limit {
            silence,
            deadline: sent + shortest / 3,
        };
        if class == LinkClass::Command {
            let outcomes = net.send(&session, &calls, by, limit).await;
            return (outcomes, Confirmed::default());
        }
        let replicas = session.replicas();
        let needed = chunk.iter().map(|job| job.hold.needs(replicas)).max();
        let needed = needed.unwrap_or(0);
        let (outcomes, acknowledged) = net
            .send_durably(&session, &calls, by, limit, needed, silence)
            .await;
        let by = match acknowledged {
            Acknowledged::By(confirmed) => Some(confirmed),
            Acknowledged::Unknown | Acknowledged::Refused(_) => None,
        };
        (outcomes, Confirmed { by, of: replicas })
    }

    fn settle(&self, job: &Job, outcome: CallOutcome, sent: Moment, confirmed: &Confirmed) {
        let reply = match outcome {
            CallOutcome::Replied(reply) => reply,
            CallOutcome::Failed(failure) => return self.failed(job, failure.into_error(true)),
        };
        match job.hold.primitive().renewed(&reply) {
            Ok(Renewed::Renewed | Renewed::Ends(_)) if !confirmed.suffices(job) => {
                self.failed(job, "too few replicas have confirmed it");
            }
            Ok(Renewed::Ends(span)) => {
                job.hold.extended(sent, span);
                self.table()
                    .renewed(job.id, job.span, sent, self.runtime.random());
            }
            Ok(Renewed::Renewed) => {
                let left = job.hold.valid_until() - self.runtime.now();
                observe::renewed(job.hold.labels(), left < job.span / 3);
                job.hold.extended(sent, job.span);
                self.table()
                    .renewed(job.id, job.span, sent, self.runtime.random());
            }
            Ok(Renewed::Lost(cause)) => {
                self.remove(job.id);
                job.hold.lose(cause);
            }
            Ok(Renewed::Late) => self.failed(job, "it came too late to act"),
            Err(error) => self.failed(job, error),
        }
    }

    fn failed(&self, job: &Job, why: impl std::fmt::Display) {
        observe::renewal_failed(job.hold.labels(), job.hold.primitive().name(), &why);
        job.hold.troubled();
        self.table()
            .failed(job.id, self.runtime.now(), self.runtime.random());
    }

    fn table(&self) -> MutexGuard<'_, RenewalTable<Weak<Hold>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many replicas have confirmed a chunk of renewals.
#[derive(Debug, Default)]
struct Confirmed {
    /// `None` if nobody knows.
    by: Option<u32>,
    /// The most the node was seen to have.
    of: u32,
}

impl Confirmed {
    fn suffices(&self, job: &Job) -> bool {
        job.class == LinkClass::Command || self.by.is_some_and(|by| by >= job.hold.needs(self.of))
    }
}

/// Renewals in one pipeline.
const CHUNK: usize = 256;

/// Renewals due within this time go together.
const GATHER: Duration = Duration::from_millis(25);
