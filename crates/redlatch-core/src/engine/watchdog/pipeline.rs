//! One pipeline of renewals: first to the node in charge, then to those it names.

use std::{sync::Arc, time::Duration};

use crate::{
    Error,
    base::script::{CallOutcome, ScriptCall},
    engine::Hold,
    net::{Acknowledged, Limit, LinkClass, Net, Replication, Request, Response, Session},
    protocol::{lease::Lease, time::Moment},
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
    act_before: u64,
    limit: Limit,
    /// Who has to have them, if anybody has.
    replication: Option<Replication>,
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
        let replication = (class == LinkClass::Durable).then(|| {
            let needs = |replicas| jobs.iter().map(|job| job.hold.needs(replicas)).max();
            Replication::of_session(&session, |replicas| needs(replicas).unwrap_or(0), silence)
        });
        Ok(Self {
            act_before: session.act_before(net.world.now()),
            session,
            sent,
            limit: Limit {
                silence,
                deadline: sent + shortest / 3,
            },
            replication,
        })
    }

    /// Sends it to its node. What that refuses, or says to be another's, is for [`follow`](Self::follow) to go on
    /// with.
    pub(super) async fn send(&self, net: &Net, jobs: &[Job]) -> (Vec<CallOutcome>, Confirmed) {
        let calls = calls(jobs);
        let request = self.request(&calls);
        self.confirmed(net.send_once(&self.session, &request).await)
    }

    /// Goes on with `jobs`, of which the node has said `outcomes`.
    pub(super) async fn follow(
        &self,
        net: &Net,
        jobs: &[Job],
        outcomes: Vec<CallOutcome>,
    ) -> (Vec<CallOutcome>, Confirmed) {
        let calls = calls(jobs);
        let request = self.request(&calls);
        let settling = net.settle(&self.session, &request, outcomes);
        self.confirmed(settling.await)
    }

    const fn request<'a>(&self, calls: &'a [&'a ScriptCall]) -> Request<'a> {
        Request {
            calls,
            act_before: self.act_before,
            limit: self.limit,
            replication: self.replication,
        }
    }

    fn confirmed(&self, response: Response) -> (Vec<CallOutcome>, Confirmed) {
        let confirmed = match (self.replication, response.acknowledged) {
            (None, _) => Confirmed::Unasked,
            (Some(wanted), Some(Acknowledged::By(count))) => Confirmed::By(count, wanted.of),
            (Some(_), _) => Confirmed::Unknown,
        };
        (response.outcomes, confirmed)
    }

    pub(super) const fn sent(&self) -> Moment {
        self.sent
    }

    pub(super) fn timing(&self) -> Timing {
        let (usual, patience) = (self.session.usual(), self.limit.silence);
        // Replicas are waited for as long as for an answer.
        let waits = self.replication.map_or(Duration::ZERO, |_| patience);
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
