//! One pipeline of renewals: first to the node in charge, then to those it names.

use std::{sync::Arc, time::Duration};

use crate::{
    Error,
    engine::Hold,
    net::{Acknowledged, Limit, LinkClass, Net, Replication, Session},
    protocol::{lease::Lease, time::Moment},
    script::{CallOutcome, ScriptCall},
};

/// One renewal under way.
pub(super) struct Job {
    pub(super) hold: Arc<Hold>,
    pub(super) span: Duration,
    pub(super) call: ScriptCall,
}

/// How long one answer takes at most that waits for nobody, and how long one is waited for.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    pub(super) usual: Duration,
    pub(super) patience: Duration,
}

/// How a pipeline is sent.
pub(super) struct Pipeline {
    session: Arc<Session>,
    sent: Moment,
    /// The server's time until which its renewals may act.
    by: u64,
    limit: Limit,
    /// Who has to have them, if anybody has.
    wanted: Option<Replication>,
}

impl Pipeline {
    /// Waits until the node of `jobs` can be spoken to.
    pub(super) async fn begin(
        net: &Net,
        class: LinkClass,
        jobs: &[Job],
        sent: Moment,
    ) -> Result<Self, Error> {
        let shortest = jobs.iter().map(|job| job.span).min().unwrap_or_default();
        let silence = Lease::renewed(shortest)
            .unwrap_or_default()
            .attempt_timeout();
        let slot = jobs.first().map_or(0, |job| job.call.slot());
        let session = net.session(slot, class, sent + silence).await?;
        let wanted = (class == LinkClass::Durable).then(|| {
            let replicas = session.replicas();
            let needs = jobs.iter().map(|job| job.hold.needs(replicas));
            Replication {
                replicas: needs.max().unwrap_or(0),
                of: replicas,
                timeout: silence,
            }
        });
        Ok(Self {
            by: session.by(net.world.now()),
            session,
            sent,
            limit: Limit {
                silence,
                deadline: sent + shortest / 3,
            },
            wanted,
        })
    }

    /// Sends it to its node. What that refuses, or says to be another's, is for [`follow`](Self::follow) to go on with.
    pub(super) async fn send(&self, net: &Net, jobs: &[Job]) -> (Vec<CallOutcome>, Confirmed) {
        let (session, calls) = (&self.session, calls(jobs));
        let Some(wanted) = self.wanted else {
            let sending = net.send_once(session, &calls, self.by, self.limit);
            return (sending.await, Confirmed::Unasked);
        };
        let sending = net.send_durably_once(session, &calls, self.by, self.limit, wanted);
        let (outcomes, told) = sending.await;
        (outcomes, Confirmed::of(told, wanted.of))
    }

    /// Goes on with `jobs`, of which the node has said `outcomes`.
    pub(super) async fn follow(
        &self,
        net: &Net,
        jobs: &[Job],
        outcomes: Vec<CallOutcome>,
    ) -> (Vec<CallOutcome>, Confirmed) {
        let (session, by, limit) = (&self.session, self.by, self.limit);
        let calls = calls(jobs);
        let Some(wanted) = self.wanted else {
            let settling = net.settle(session, &calls, by, limit, outcomes);
            return (settling.await, Confirmed::Unasked);
        };
        let settling = net.settle_durably(session, &calls, by, limit, wanted, outcomes);
        let (outcomes, told) = settling.await;
        (outcomes, Confirmed::of(told, wanted.of))
    }

    pub(super) const fn sent(&self) -> Moment {
        self.sent
    }

    pub(super) fn timing(&self) -> Timing {
        let (usual, patience) = (self.session.usual(), self.limit.silence);
        // Replicas are waited for as long as for an answer.
        let waits = self.wanted.map_or(Duration::ZERO, |_| patience);
        Timing {
            usual: usual + waits,
            patience,
        }
    }
}

fn calls(jobs: &[Job]) -> Vec<&ScriptCall> {
    jobs.iter().map(|job| &job.call).collect()
}

/// Which replicas have confirmed a pipeline of renewals.
#[derive(Debug)]
pub(super) enum Confirmed {
    /// Nobody had to.
    Unasked,
    /// Nobody knows.
    Unknown,
    /// So many, of so many that the node was seen to have at most.
    By(u32, u32),
}

impl Confirmed {
    fn of(told: Option<Acknowledged>, replicas: u32) -> Self {
        match told {
            Some(Acknowledged::By(confirmed)) => Self::By(confirmed, replicas),
            Some(Acknowledged::Unknown | Acknowledged::Refused(_)) | None => Self::Unknown,
        }
    }

    /// Tells whether that is enough for the guards of this hold.
    pub(super) fn suffices(&self, job: &Job) -> bool {
        match *self {
            // A guard that waits for replicas may have joined since.
            Self::Unasked => !job.hold.is_durable(),
            Self::Unknown => false,
            Self::By(confirmed, replicas) => confirmed >= job.hold.needs(replicas),
        }
    }
}
