//! One pipeline of renewals: first to the slot's owner, then to the nodes that its replies name.

use std::{sync::Arc, time::Duration};

use crate::{
    Error,
    base::{
        rules::Rule,
        script::{CallOutcome, ScriptCall},
    },
    engine::Hold,
    net::{Acknowledged, Dispatch, Limit, LinkClass, Net, Replication, Request, Response, Session},
    protocol::{lease::Lease, time::Moment},
};

/// One renewal in progress.
pub(super) struct Job {
    pub(super) hold: Arc<Hold>,
    pub(super) span: Duration,
    pub(super) call: ScriptCall,
}

/// The time that an answer usually takes at most, and the time that the client waits for one.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    pub(super) usual: Duration,
    pub(super) patience: Duration,
}

/// A pipeline, with its connection and its limits.
pub(super) struct Pipeline {
    session: Arc<Session>,
    sent: Moment,
    /// The last server time at which its renewals may act.
    act_before: u64,
    limit: Limit,
    /// The replicas that have to confirm the renewals, if any have to.
    replication: Option<Replication>,
}

impl Pipeline {
    /// Waits for a session with the node of `jobs`.
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

    /// Sends it to its node. [`follow`](Self::follow) continues with the renewals that the node
    /// refuses or redirects.
    pub(super) async fn send(&self, net: &Net, jobs: &[Job]) -> (Vec<CallOutcome>, Confirmed) {
        let calls = calls(jobs);
        let request = self.request(&calls);
        self.confirmed(net.send_once(&self.session, &request).await)
    }

    /// Continues with `jobs`, for which the node returned `outcomes`.
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
            dispatch: Dispatch::AtOnce,
            checked: None,
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
        // The wait for replicas may take as long as the wait for an answer.
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

/// The confirmation of a pipeline of renewals by replicas.
#[derive(Debug)]
pub(super) enum Confirmed {
    /// No replica had to confirm.
    Unasked,
    /// The number of confirmations is unknown.
    Unknown,
    /// The number of confirmations, and the largest number of replicas that the node has been seen
    /// to have.
    By(u32, u32),
}

impl Confirmed {
    /// Tells whether the confirmations are enough for the guards of this hold.
    pub(super) fn suffices(&self, job: &Job) -> bool {
        let client = job.hold.client();
        match *self {
            _ if !client.keeps(Rule::ConfirmRenewals) => true,
            Self::Unasked if !client.keeps(Rule::RenewDurably) => true,
            // A guard that requires replicas may have joined since.
            Self::Unasked => !job.hold.is_durable(),
            Self::Unknown => false,
            Self::By(confirmed, replicas) => confirmed >= job.hold.needs(replicas),
        }
    }
}
