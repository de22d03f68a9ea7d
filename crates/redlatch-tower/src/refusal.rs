//! Refusals, and what causes them.

use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use redlatch::{Error, ErrorKind, limit::Refused};

use crate::{body::HeldBody, fields::seconds};

/// The action for a request if the server of the lock or the limit fails: the server is
/// unreachable, refuses the login, withholds a right, or is full. The action is the same if the
/// hold is lost while the service works.
///
/// An error that a request or the program causes is not part of this choice. See
/// [`Refusal::Invalid`] and [`Refusal::Unavailable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Answers with this status. After a loss, the work of the service is dropped at its next
    /// await, and a body that is being sent ends with an error.
    Refuse(StatusCode),
    /// Lets the request through without a lock or a permit. After a loss, the work continues.
    ///
    /// Only failures of the server let requests through. Any other error is refused with 500, and
    /// too many waiting requests of one client with 503.
    ///
    /// Requests of several replicas may then overlap, and a request has no `Token` in its
    /// extensions.
    PassThrough,
}

/// Why a request was refused. It is in the extensions of the response. The body is a line of plain
/// text. `Retry-After` is the time until the rate lets the next request through, and otherwise a
/// second where another try may succeed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// Other requests had the lock, or all permits.
    Busy,
    /// The rate is used up. The status is 429.
    Limited(Refused),
    /// The request asked for a name that is empty, longer than 512 bytes, or in use as an object of
    /// another kind. The status is 400, whatever [`Unavailable`] says.
    Invalid(Error),
    /// The lock or the limit could not be asked, or the hold was lost.
    Unavailable(Error),
}

/// Returns how a request is refused whose acquisition has failed; `None` lets it through.
pub(crate) fn refusal(error: Error, unavailable: Unavailable) -> Option<(StatusCode, Refusal)> {
    let status = match (error.kind(), unavailable) {
        (ErrorKind::InvalidName | ErrorKind::WrongKind, _) => {
            return Some((StatusCode::BAD_REQUEST, Refusal::Invalid(error)));
        }
        (_, Unavailable::Refuse(status)) => status,
        (kind, Unavailable::PassThrough) if is_of_server(kind) => return None,
        // Many requests at a time cause it, and must not switch a limit off.
        (ErrorKind::TooManyWaiters, Unavailable::PassThrough) => StatusCode::SERVICE_UNAVAILABLE,
        (_, Unavailable::PassThrough) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Some((status, Refusal::Unavailable(error)))
}

/// Says whether the server, or the way to it, causes errors of this kind.
const fn is_of_server(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unavailable
            | ErrorKind::OutcomeUnknown
            | ErrorKind::NotEnoughReplicas
            | ErrorKind::ServerFull
            | ErrorKind::UnsupportedServer
            | ErrorKind::Auth
            | ErrorKind::Permission
            | ErrorKind::Closed
    )
}

/// Returns the response to a request that is refused.
pub(crate) fn refused<B>(status: StatusCode, refusal: Refusal) -> Response<HeldBody<B>> {
    tell(status, &refusal);
    let retry_after = match &refusal {
        Refusal::Busy => Some(1),
        Refusal::Limited(refused) => Some(seconds(refused.retry_after)),
        Refusal::Invalid(_) => None,
        Refusal::Unavailable(error) => {
            (error.is_transient() || error.loss().is_some()).then_some(1)
        }
    };
    let mut response = Response::new(HeldBody::refusal(text_of(&refusal)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response.extensions_mut().insert(refusal);
    response
}

/// Returns what a caller may know of a refusal. Names and errors stay inside.
const fn text_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Busy => "Others are at work on this. Try again.\n",
        Refusal::Limited(_) => "Too many requests. Try again later.\n",
        Refusal::Invalid(_) => "This request names nothing that can be locked.\n",
        Refusal::Unavailable(_) => "The service that coordinates requests does not answer.\n",
    }
}

fn tell(status: StatusCode, refusal: &Refusal) {
    let status = status.as_u16();
    match refusal {
        Refusal::Busy => tracing::debug!(
            target: "redlatch", event = "request_refused", status, "a request found others at work"
        ),
        Refusal::Limited(_) => tracing::debug!(
            target: "redlatch", event = "request_refused", status, "a request came too early"
        ),
        Refusal::Invalid(error) => tracing::debug!(
            target: "redlatch", event = "request_refused", status, %error, "a request has no valid name"
        ),
        Refusal::Unavailable(error) => tracing::warn!(
            target: "redlatch", event = "request_refused", status, %error, "a request could not be coordinated"
        ),
    }
}
