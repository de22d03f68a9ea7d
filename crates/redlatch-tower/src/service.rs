//! The service that both layers make.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body;
use redlatch::{Error, ErrorKind};
use tower_service::Service;

use crate::{Refusal, Unavailable, Until, body::HeldBody, hold::Hold, layer::Settings};

/// A service that holds a lock or a permit while the inner service works on a request.
///
/// It is ready when the inner service is. Readiness costs nothing and holds nothing.
#[derive(Clone)]
pub struct Held<S> {
    inner: S,
    settings: Settings,
    unavailable: Unavailable,
}

/// The future of a response. If it is dropped, as when a client hangs up, the lock or permit is
/// released in the background.
pub type ResponseFuture<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<HeldBody<B>>, E>> + Send>>;

impl<S> Held<S> {
    pub(crate) const fn new(inner: S, settings: Settings, unavailable: Unavailable) -> Self {
        Self {
            inner,
            settings,
            unavailable,
        }
    }
}

impl<S, A, B> Service<Request<A>> for Held<S>
where
    S: Service<Request<A>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
    A: Send + 'static,
    B: Body,
{
    type Response = Response<HeldBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // The clone may not be ready. The service that is ready works on this request.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let (mut parts, body) = request.into_parts();
        let object = (self.settings.source)(&parts);
        let (unavailable, busy) = (self.unavailable, self.settings.busy);
        let (wait, until) = (self.settings.wait, self.settings.until);
        Box::pin(async move {
            let hold = match object {
                None => None,
                Some(object) => match object.acquire(wait).await {
                    Ok(Some(hold)) => Some(hold),
                    Ok(None) => return Ok(refused(busy, Refusal::Busy)),
                    Err(error) => match refusal(error, unavailable) {
                        None => None,
                        Some((status, refusal)) => return Ok(refused(status, refusal)),
                    },
                },
            };
            if let Some(token) = hold.as_ref().and_then(Hold::token) {
                parts.extensions.insert(token);
            }
            let work = inner.call(Request::from_parts(parts, body));
            let response = match (&hold, unavailable) {
                (Some(hold), Unavailable::Refuse(status)) => match hold.run(work).await {
                    Ok(response) => response?,
                    Err(error) => return Ok(refused(status, Refusal::Unavailable(error))),
                },
                _ => work.await?,
            };
            let stops = unavailable != Unavailable::PassThrough;
            Ok(match until {
                Until::Head => response.map(HeldBody::free),
                Until::Body => response.map(|body| HeldBody::held(body, hold, stops)),
            })
        })
    }
}

impl<S: fmt::Debug> fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .field("on_unavailable", &self.unavailable)
            .finish()
    }
}

/// Returns how a request is refused whose acquisition has failed; `None` lets it through.
fn refusal(error: Error, unavailable: Unavailable) -> Option<(StatusCode, Refusal)> {
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

fn refused<B>(status: StatusCode, refusal: Refusal) -> Response<HeldBody<B>> {
    tell(status, &refusal);
    let passes = match &refusal {
        Refusal::Busy => true,
        Refusal::Invalid(_) => false,
        Refusal::Unavailable(error) => error.is_transient() || error.loss().is_some(),
    };
    let mut response = Response::new(HeldBody::refusal(text_of(&refusal)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    if passes {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response.extensions_mut().insert(refusal);
    response
}

/// Returns what a caller may know of a refusal. Names and errors stay inside.
const fn text_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Busy => "Others are at work on this. Try again.\n",
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
        Refusal::Invalid(error) => tracing::debug!(
            target: "redlatch", event = "request_refused", status, %error, "a request has no valid name"
        ),
        Refusal::Unavailable(error) => tracing::warn!(
            target: "redlatch", event = "request_refused", status, %error, "a request could not be coordinated"
        ),
    }
}
