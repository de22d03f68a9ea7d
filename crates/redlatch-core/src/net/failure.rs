//! The errors that callers get for failed calls.

use crate::{Error, ErrorKind, base::script::Failure, protocol::classify::Obstacle};

impl Failure {
    /// Returns the error for a caller whose time is over. `unknown` means that the server may have
    /// executed a request of this call.
    pub(crate) fn into_error(self, unknown: bool) -> Error {
        let kind = if unknown {
            ErrorKind::OutcomeUnknown
        } else {
            ErrorKind::Unavailable
        };
        let error = match self {
            Self::Fatal(error) => error,
            Self::Refused(Obstacle::Replicas, error) => Error::with_source(
                ErrorKind::NotEnoughReplicas,
                "the server has too few replicas to take writes",
                error,
            ),
            Self::Refused(_, error) => Error::with_source(
                kind,
                "the server cannot serve the request for the moment",
                error,
            ),
            Self::Redirected(redirect) => Error::new(
                ErrorKind::UnsupportedServer,
                format!(
                    "slot {} is served by {}: this server belongs to a cluster",
                    redirect.slot, redirect.address
                ),
            ),
            Self::NotSent(why) => Error::new(kind, format!("the server cannot be reached: {why}")),
            Self::Unknown(why) => Error::new(
                ErrorKind::OutcomeUnknown,
                format!("the server did not answer in time: {why}"),
            ),
        };
        if unknown { error.in_doubt() } else { error }
    }
}
