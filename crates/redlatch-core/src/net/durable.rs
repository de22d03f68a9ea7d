//! Scripts that replicas have to know of.

use std::time::Duration;

use super::{Limit, LinkClass, Net, Session, Tries, sender};
use crate::{
    Durability, Error, ErrorKind,
    protocol::{
        classify::{Class, classify},
        server_clock::whole_millis,
        time::Moment,
    },
    script::{CallOutcome, Failure, ScriptCall},
    seam::{Command, Outcome, Value},
};

/// Who has confirmed what was sent.
#[derive(Clone, Debug)]
pub(crate) enum Acknowledged {
    /// So many replicas.
    By(u32),
    /// Nobody knows.
    Unknown,
    /// The server refuses to wait for replicas.
    Refused(Error),
}

impl Net {
    /// Sends calls over a durable link as one pipeline, and one `WAIT` for `replicas` behind them, which waits for `timeout` at most. What goes to
    /// another node is not waited for: the caller's next try is.
    pub(crate) async fn send_durably(
        &self,
        session: &Session,
        calls: &[&ScriptCall],
        by: u64,
        limit: Limit,
        replicas: u32,
        timeout: Duration,
    ) -> (Vec<CallOutcome>, Acknowledged) {
        // Behind a connection that waits others wait too, one after the other.
        let limit = Limit {
            silence: limit.silence + timeout,
            ..limit
        };
        // Zero would mean for ever.
        let timeout = whole_millis(timeout).max(1);
        let wait = Command::new("WAIT")
            .arg(replicas.to_string())
            .arg(timeout.to_string());
        let (outcomes, waited) = sender::send_and(session, calls, by, limit, &wait).await;
        let redirected = outcomes
            .iter()
            .any(|outcome| matches!(outcome, CallOutcome::Failed(Failure::Redirected(_))));
        let outcomes = self.settle(session, calls, by, limit, outcomes).await;
        let acknowledged = if redirected {
            Acknowledged::Unknown
        } else {
            acknowledged(waited)
        };
        if let Acknowledged::By(replicas) = acknowledged {
            session.saw_replicas(replicas);
        }
        (outcomes, acknowledged)
    }

    /// Sends one idempotent call over a durable link again and again until the script has replied and replicas were counted, each try waiting
    /// up to `timeout` for either, until `deadline`. Also returns an error if fewer have confirmed it than `needs` makes of all there are.
    pub(crate) async fn insist_durably(
        &self,
        call: &ScriptCall,
        timeout: Duration,
        deadline: Moment,
        needs: impl Fn(u32) -> u32 + Send,
    ) -> Result<(Value, Result<(), Error>), Error> {
        let mut tries = Tries::until(deadline);
        loop {
            let (outcome, acknowledged, needed) =
                self.try_durably(call, timeout, deadline, &needs).await;
            let failure = match (outcome, acknowledged) {
                (CallOutcome::Replied(reply), Acknowledged::By(confirmed)) => {
                    let short = confirmed < needed;
                    let enough = if short {
                        Err(shortfall(confirmed, needed))
                    } else {
                        Ok(())
                    };
                    return Ok((reply, enough));
                }
                (CallOutcome::Replied(_), Acknowledged::Refused(error)) => {
                    return Err(error.in_doubt());
                }
                (CallOutcome::Replied(_), Acknowledged::Unknown) => {
                    Failure::Unknown("nobody knows which replicas have confirmed it".to_owned())
                }
                (CallOutcome::Failed(failure), _) => failure,
            };
            tries.failed(&self.world, failure).await?;
        }
    }

    async fn try_durably(
        &self,
        call: &ScriptCall,
        timeout: Duration,
        deadline: Moment,
        needs: &(impl Fn(u32) -> u32 + Send),
    ) -> (CallOutcome, Acknowledged, u32) {
        let until = deadline.min(self.world.now() + timeout);
        match self.session(call.slot(), LinkClass::Durable, until).await {
            Ok(session) => {
                let by = session.by(self.world.now());
                let limit = Limit {
                    silence: timeout,
                    deadline,
                };
                let needed = needs(session.replicas());
                let (mut outcomes, acknowledged) = self
                    .send_durably(&session, &[call], by, limit, needed, timeout)
                    .await;
                (outcomes.swap_remove(0), acknowledged, needed)
            }
            Err(error) => {
                let failure = Failure::of_session(error);
                (CallOutcome::Failed(failure), Acknowledged::Unknown, 0)
            }
        }
    }
}

fn acknowledged(waited: Option<Outcome>) -> Acknowledged {
    match waited {
        Some(Outcome::Replied(Ok(count))) => count
            .as_int()
            .and_then(|count| u32::try_from(count).ok())
            .map_or(Acknowledged::Unknown, Acknowledged::By),
        Some(Outcome::Replied(Err(error))) => match classify(&error.code, &error.message) {
            Class::Fatal(refusal) => Acknowledged::Refused(Error::refused(refusal, error)),
            _ => Acknowledged::Unknown,
        },
        _ => Acknowledged::Unknown,
    }
}

impl Durability {
    /// Returns what its requests go over.
    pub(crate) const fn link_class(self) -> LinkClass {
        if self.waits() {
            LinkClass::Durable
        } else {
            LinkClass::Command
        }
    }
}

/// The error of what too few replicas have confirmed.
pub(crate) fn shortfall(confirmed: u32, needed: u32) -> Error {
    let message = format!("{confirmed} replicas have confirmed it, {needed} were asked for");
    Error::new(ErrorKind::NotEnoughReplicas, message).in_doubt()
}
