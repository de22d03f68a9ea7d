//! The service that both layers make, the need of a request, and its hold.

use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use http_body::Body;
use redlatch::{AnyGuard, Error, Lock, Semaphore};
use tower_service::Service;

use crate::{
    Refusal, Unavailable, Until,
    body::HeldBody,
    layer::Settings,
    refusal::{refusal, refused},
};

/// A service that holds a lock or a permit while the inner service works on a request.
///
/// It is ready when the inner service is. Readiness costs nothing and holds nothing.
#[derive(Clone, Debug)]
pub struct Held<S> {
    pub(crate) inner: S,
    pub(crate) settings: Settings,
    pub(crate) on_unavailable: Unavailable,
}

/// The future of a response. If it is dropped, as when a client hangs up, the lock or permit is
/// released in the background.
pub type ResponseFuture<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<HeldBody<B>>, E>> + Send>>;

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
        let (unavailable, busy) = (self.on_unavailable, self.settings.busy);
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
            if let Some(token) = hold.as_ref().and_then(|hold| hold.token()) {
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

/// An object that a request has to hold while the service works on it.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Lock(Lock),
    Permit(Semaphore),
}

/// A hold for one request. Its drop releases in the background.
pub(crate) type Hold = Box<dyn AnyGuard>;

impl Object {
    /// Acquires the object; `None` if others have it for as long as `wait`.
    pub(crate) async fn acquire(self, wait: Duration) -> Result<Option<Hold>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock_for(wait).await?.map(Hold::from),
            Self::Permit(semaphore) => semaphore.try_acquire_for(wait).await?.map(Hold::from),
        })
    }
}
