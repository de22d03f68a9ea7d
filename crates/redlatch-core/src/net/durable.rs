//! Scripts that replicas have to know of.

use std::time::Duration;

use super::{
    Limit, LinkClass, Net, Session, Tries, is_settled, redirect,
    sender::{self, Asking},
};
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
    /// Sends calls over a durable link as one pipeline, and one `WAIT` for `replicas` behind them, which waits for `timeout` at most. What another
    /// node is in charge of goes there over its durable link, with a `WAIT` of its own; the fewest that any of them counted have confirmed it.
    pub(crate) async fn send_durably(
        &self,
        session: &Session,
        calls: &[&ScriptCall],
        by: u64,
        limit: Limit,
        replicas: u32,
        timeout: Duration,
    ) -> (Vec<CallOutcome>, Acknowledged) {
        let wanted = Replication {
            replicas,
            // Before anybody counts them anew.
            of: session.replicas(),
            timeout,
        };
        let sending = self.send_durably_once(session, calls, by, limit, wanted);
        let (outcomes, here) = sending.await;
        let settling = self.settle_durably(session, calls, by, limit, wanted, outcomes);
        let (outcomes, elsewhere) = settling.await;
        let fewest = here
            .into_iter()
            .chain(elsewhere)
            .reduce(Acknowledged::or_fewer);
        (outcomes, fewest.unwrap_or(Acknowledged::Unknown))
    }

    /// As [`send_durably`](Self::send_durably), to this one node; what it says is for [`settle_durably`](Self::settle_durably) to go on with. Who has
    /// confirmed what it has executed comes second, if that is anything.
    pub(crate) async fn send_durably_once(
        &self,
        session: &Session,
        calls: &[&ScriptCall],
        by: u64,
        limit: Limit,
        wanted: Replication,
    ) -> (Vec<CallOutcome>, Option<Acknowledged>) {
        let (limit, wait) = (wanted.extends(limit), wanted.command());
        send_and_wait(session, calls, by, limit, Asking::No, &wait).await
    }

    /// Goes on with what was redirected or refused, if anything was; who has confirmed that comes second, if any of it was executed.
    pub(crate) async fn settle_durably(
        &self,
        session: &Session,
        calls: &[&ScriptCall],
        by: u64,
        limit: Limit,
        wanted: Replication,
        outcomes: Vec<CallOutcome>,
    ) -> (Vec<CallOutcome>, Option<Acknowledged>) {
        if outcomes.iter().all(is_settled) {
            return (outcomes, None);
        }
        let (limit, wait) = (wanted.extends(limit), wanted.command());
        // Another node may have more replicas, of which the same part is more.
        let waiting = Waiting {
            wait: &wait,
            of: wanted.of,
        };
        let router = &self.router;
        let following =
            redirect::follow(router, session, calls, by, limit, outcomes, Some(waiting));
        let (outcomes, told) = Box::pin(following).await;
        (outcomes, told.into_iter().reduce(Acknowledged::or_fewer))
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
            self.world.life.check_all()?;
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

/// How many replicas are waited for behind a pipeline, of how many when that was reckoned, and for how long at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replication {
    pub(crate) replicas: u32,
    pub(crate) of: u32,
    pub(crate) timeout: Duration,
}

impl Replication {
    fn command(self) -> Command {
        // Zero would mean for ever.
        let timeout = whole_millis(self.timeout).max(1);
        Command::new("WAIT")
            .arg(self.replicas.to_string())
            .arg(timeout.to_string())
    }

    /// Behind a connection that waits others wait too, one after the other.
    fn extends(self, limit: Limit) -> Limit {
        Limit {
            silence: limit.silence + self.timeout,
            ..limit
        }
    }
}

/// What is asked behind calls that were redirected, wherever they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting<'a> {
    wait: &'a Command,
    /// How many replicas there are where this was reckoned; of more, as many as this may not be enough.
    of: u32,
}

impl Waiting<'_> {
    /// As [`send_and_wait`]; nobody knows what the confirmations of a node are worth that has more replicas.
    pub(super) async fn send(
        self,
        session: &Session,
        calls: &[&ScriptCall],
        by: u64,
        limit: Limit,
        asking: Asking,
    ) -> (Vec<CallOutcome>, Option<Acknowledged>) {
        let (outcomes, told) = send_and_wait(session, calls, by, limit, asking, self.wait).await;
        let comparable = session.replicas() <= self.of;
        let told = told.map(|told| {
            if comparable {
                told
            } else {
                Acknowledged::Unknown
            }
        });
        (outcomes, told)
    }
}

/// Sends calls and a `WAIT` behind them; who has confirmed them comes second, if the node has executed any.
async fn send_and_wait(
    session: &Session,
    calls: &[&ScriptCall],
    by: u64,
    limit: Limit,
    asking: Asking,
    wait: &Command,
) -> (Vec<CallOutcome>, Option<Acknowledged>) {
    let (outcomes, waited) = sender::send_and(session, calls, by, limit, asking, wait).await;
    let replied = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Replied(_));
    if !outcomes.iter().any(replied) {
        return (outcomes, None);
    }
    let told = acknowledged(waited);
    if let Acknowledged::By(replicas) = told {
        session.saw_replicas(replicas);
    }
    (outcomes, Some(told))
}

impl Acknowledged {
    /// Returns what is known of both.
    fn or_fewer(self, other: Self) -> Self {
        match (self, other) {
            (Self::By(a), Self::By(b)) => Self::By(a.min(b)),
            (Self::Refused(error), _) | (_, Self::Refused(error)) => Self::Refused(error),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
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
            Class::Fatal(refusal) | Class::Halted(refusal) => {
                Acknowledged::Refused(Error::refused(refusal, error))
            }
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
