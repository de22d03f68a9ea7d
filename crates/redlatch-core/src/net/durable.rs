//! Replication: the `WAIT` behind a pipeline, and the meaning of its answer.

use std::time::Duration;

use super::{LinkClass, Session};
use crate::{
    Durability, Error, ErrorKind,
    protocol::{
        classify::{Class, classify},
        rights,
        server_clock::whole_millis,
    },
    runtime::{Command, Outcome, ServerError},
};

/// The confirmations of a request by replicas.
#[derive(Clone, Debug)]
pub(crate) enum Acknowledged {
    /// This many replicas have confirmed.
    By(u32),
    /// The number is unknown.
    Unknown,
    /// The server refuses to wait for replicas.
    Refused(Error),
}

/// The confirmations that a `WAIT` behind a pipeline asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replication {
    /// How many replicas must confirm.
    pub(crate) replicas: u32,
    /// The number of replicas from which `replicas` was computed.
    pub(crate) of: u32,
    /// How long the server waits for the confirmations.
    pub(crate) timeout: Duration,
}

impl Replication {
    /// Returns the confirmations to wait for behind a request over `session`. `needs` computes
    /// their number from the number of replicas.
    pub(crate) fn of_session(
        session: &Session,
        needs: impl FnOnce(u32) -> u32,
        timeout: Duration,
    ) -> Self {
        let of = session.replicas();
        Self {
            replicas: needs(of),
            of,
            timeout,
        }
    }

    /// Returns the `WAIT` command.
    pub(super) fn command(self) -> Command {
        // A `WAIT` with time-out zero would block for ever.
        let timeout = whole_millis(self.timeout).max(1);
        Command::new("WAIT")
            .arg(self.replicas.to_string())
            .arg(timeout.to_string())
    }

    /// Returns an error if fewer replicas than required have confirmed.
    pub(super) fn check(self, confirmed: u32) -> Result<(), Error> {
        let needed = self.replicas;
        if confirmed >= needed {
            return Ok(());
        }
        let message = format!("{confirmed} replicas have confirmed it, {needed} were asked for");
        Err(Error::new(ErrorKind::NotEnoughReplicas, message).in_doubt())
    }

    /// Returns how many replicas have confirmed, or `None` if the number is unknown. Fails if too
    /// few have confirmed, or if the server refuses to wait for them.
    pub(crate) fn confirmed(
        self,
        confirmations: Option<Acknowledged>,
    ) -> Result<Option<u32>, Error> {
        match confirmations {
            Some(Acknowledged::By(confirmed)) => self.check(confirmed).map(|()| Some(confirmed)),
            Some(Acknowledged::Refused(error)) => Err(error.in_doubt()),
            Some(Acknowledged::Unknown) | None => Ok(None),
        }
    }
}

impl Acknowledged {
    /// Reads the answer of `session` to the `WAIT` behind calls that it has executed.
    pub(super) fn read(session: &Session, waited: Option<Outcome>) -> Self {
        match waited {
            Some(Outcome::Replied(Ok(count))) => {
                let count = count.as_int().and_then(|count| u32::try_from(count).ok());
                if let Some(replicas) = count {
                    session.saw_replicas(replicas);
                }
                count.map_or(Self::Unknown, Self::By)
            }
            Some(Outcome::Replied(Err(error))) => match classify(&error.code, &error.message) {
                _ if has_no_wait(&error) => Self::Refused(no_wait(error)),
                Class::Fatal(refusal) | Class::Halted(refusal) => {
                    Self::Refused(Error::refused(refusal, error))
                }
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    /// Combines the answers of two nodes, and keeps the weaker one.
    pub(super) fn or_fewer(self, other: Self) -> Self {
        match (self, other) {
            (Self::By(a), Self::By(b)) => Self::By(a.min(b)),
            (Self::Refused(error), _) | (_, Self::Refused(error)) => Self::Refused(error),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
        }
    }
}

/// Tells whether a server that executes requests never waits for replicas. The refusal of a
/// replica, which may have been a master, does not count.
fn has_no_wait(error: &ServerError) -> bool {
    let is_replica = error.message.contains("replica instances");
    let class = classify(&error.code, &error.message);
    rights::is_unknown_command(&error.message)
        || error.code == "ERR" && class == Class::Unknown && !is_replica
}

fn no_wait(error: ServerError) -> Error {
    let message = format!(
        "the server refuses WAIT, without which no replica can confirm; use Durability::Master, or another server: {error}"
    );
    Error::with_reason(ErrorKind::UnsupportedServer, message, error)
}

impl Durability {
    /// Returns the confirmations to wait for behind a request over `session`, if any.
    pub(crate) fn replication(self, session: &Session, timeout: Duration) -> Option<Replication> {
        self.waits()
            .then(|| Replication::of_session(session, |of| self.needs(of), timeout))
    }

    /// Returns the class of link for requests with this durability.
    pub(crate) const fn link_class(self) -> LinkClass {
        LinkClass::of(self.waits())
    }
}
