//! The layer that limits how many requests pass in a time.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode, request::Parts};
use http_body::Body;
use redlatch::{
    Error,
    limit::{Admission, RateLimiter},
};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Decided, Refusal, ResponseFuture, Unavailable, Undecided,
    body::HeldBody,
    fields::{Quota, Rest, append, quoted},
    refusal::{refusal, refused},
};

/// Lets so many requests in a time through, over all replicas that use the same rate limiter.
///
/// A request takes one token in `call`, and gets 429 with `Retry-After` if the rate is used up.
/// Each response says in the fields `RateLimit` and `RateLimit-Policy` what is left, as
/// [draft-ietf-httpapi-ratelimit-headers-11] defines them: `q` requests pass in `w` seconds, and no
/// more than `r` within the next `t` seconds. Fields of other layers or of your service stay.
///
/// A layer without [`fail_open`](Self::fail_open) or [`fail_closed`](Self::fail_closed) does not
/// compile:
///
/// ```compile_fail,E0277
/// # fn example(client: redlatch::Client) -> axum::Router {
/// let limit = redlatch_tower::RateLimitLayer::new(client.rate_limiter("api"));
/// axum::Router::new().layer(limit)
/// # }
/// ```
///
/// [draft-ietf-httpapi-ratelimit-headers-11]:
///     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
#[derive(Clone)]
#[must_use = "a layer has no effect before it is added to a service"]
pub struct RateLimitLayer<D = Undecided> {
    source: Arc<Source>,
    policy: Arc<str>,
    decided: D,
}

/// Returns the limiter of a request.
type Source = dyn Fn(&Parts) -> Option<RateLimiter> + Send + Sync;

impl RateLimitLayer {
    /// Creates a layer with one limit for all requests. See [`by`](Self::by) for a limit per
    /// client.
    pub fn new(limiter: RateLimiter) -> Self {
        Self::by(move |_| Some(limiter.clone()))
    }

    /// Creates a layer that takes a token of the limiter that `limiter` returns for a request, such
    /// as one per tenant. A request for which it returns `None` passes without a limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use axum::{Router, body::Body, http::Request, routing::get};
    /// # use axum::http::request::Parts;
    /// # use tower::ServiceExt;
    /// use std::time::Duration;
    /// use redlatch_tower::RateLimitLayer;
    ///
    /// // Each tenant has its own limit.
    /// let tenants = client.rate_limiter("tenant").rate(100, Duration::from_secs(60)).burst(20);
    /// let limit = RateLimitLayer::by(move |request: &Parts| {
    ///     let tenant = request.headers.get("tenant")?.to_str().ok()?;
    ///     Some(tenants.key(tenant))
    /// })
    /// .fail_open();
    /// let app: Router = Router::new().route("/", get(async || {})).layer(limit);
    /// # let request = Request::builder().header("tenant", "7").body(Body::empty());
    /// # let response = app.oneshot(request.expect("valid")).await.expect("infallible");
    /// assert_eq!(response.headers()["ratelimit-policy"], "\"default\";q=100;w=60");
    /// assert_eq!(response.headers()["ratelimit"], "\"default\";r=19;t=1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn by(limiter: impl Fn(&Parts) -> Option<RateLimiter> + Send + Sync + 'static) -> Self {
        Self {
            source: Arc::new(limiter),
            policy: "\"default\"".into(),
            decided: Undecided(()),
        }
    }
}

impl<D> RateLimitLayer<D> {
    /// Sets the name of the policy in the fields, which clients see. Default: `default`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use std::time::Duration;
    /// # use axum::{Router, body::Body, http::Request, routing::get};
    /// # use redlatch_tower::RateLimitLayer;
    /// # use tower::ServiceExt;
    /// let api = client.rate_limiter("api").rate(5, Duration::from_secs(1));
    /// let limit = RateLimitLayer::new(api).policy("all clients").fail_closed();
    /// # let app: Router = Router::new().route("/", get(async || {})).layer(limit);
    /// # let response = app.oneshot(Request::new(Body::empty())).await.expect("infallible");
    /// assert_eq!(response.headers()["ratelimit"], "\"all clients\";r=4;t=1");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the name is not printable ASCII.
    #[track_caller]
    pub fn policy(mut self, name: &str) -> Self {
        let quoted = quoted(name);
        assert!(
            quoted.is_some(),
            "the name of a policy is printable ASCII, and {name:?} is not"
        );
        self.policy = quoted.unwrap_or_default().into();
        self
    }

    /// Lets requests through without a limit while the server fails, as
    /// [`Unavailable::PassThrough`] does. The layer suits a limit that only spreads the load.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # use std::time::Duration;
    /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
    /// # use redlatch_tower::RateLimitLayer;
    /// # use tower::ServiceExt;
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// let api = client.rate_limiter("api").rate(5, Duration::from_secs(1));
    /// let limit = RateLimitLayer::new(api).fail_open();
    /// # let app: Router = Router::new().route("/", get(async || {})).layer(limit);
    /// server.stop_for(Duration::from_secs(60));
    /// # let response = app.oneshot(Request::new(Body::empty())).await;
    /// # let status = response.map(|response| response.status());
    /// assert_eq!(status, Ok(StatusCode::OK));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_open(self) -> RateLimitLayer<Decided> {
        self.decided(Unavailable::PassThrough)
    }

    /// Refuses requests with 503 while the server fails, as [`Unavailable::Refuse`] does. The layer
    /// suits a limit that protects something, such as the attempts at a password.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # use std::time::Duration;
    /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
    /// # use redlatch_tower::RateLimitLayer;
    /// # use tower::ServiceExt;
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// let logins = client.rate_limiter("logins").rate(5, Duration::from_secs(60));
    /// let limit = RateLimitLayer::new(logins).fail_closed();
    /// # let app: Router = Router::new().route("/", get(async || {})).layer(limit);
    /// server.stop_for(Duration::from_secs(60));
    /// # let response = app.oneshot(Request::new(Body::empty())).await;
    /// # let status = response.map(|response| response.status());
    /// assert_eq!(status, Ok(StatusCode::SERVICE_UNAVAILABLE));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_closed(self) -> RateLimitLayer<Decided> {
        self.decided(Unavailable::Refuse(StatusCode::SERVICE_UNAVAILABLE))
    }

    fn decided(self, unavailable: Unavailable) -> RateLimitLayer<Decided> {
        RateLimitLayer {
            source: self.source,
            policy: self.policy,
            decided: Decided(unavailable),
        }
    }
}

impl<S> Layer<S> for RateLimitLayer<Decided> {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> RateLimited<S> {
        let layer = self.clone();
        RateLimited { inner, layer }
    }
}

/// A service that takes a token of a rate limiter before the inner service works on a request.
///
/// It is ready when the inner service is. Readiness costs nothing and takes nothing.
#[derive(Clone, Debug)]
pub struct RateLimited<S> {
    inner: S,
    layer: RateLimitLayer<Decided>,
}

impl<S, A, B> Service<Request<A>> for RateLimited<S>
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
        let (parts, body) = request.into_parts();
        let limiter = (self.layer.source)(&parts);
        let (policy, unavailable) = (Arc::clone(&self.layer.policy), self.layer.decided.0);
        Box::pin(async move {
            let asked = match limiter {
                None => None,
                Some(limiter) => match ask(&limiter).await {
                    Ok(asked) => Some(asked),
                    Err(error) => match refusal(error, unavailable) {
                        None => None,
                        Some((status, refusal)) => return Ok(refused(status, refusal)),
                    },
                },
            };
            let mut response = match &asked {
                Some((_, _, Some(refusal))) => {
                    refused(StatusCode::TOO_MANY_REQUESTS, refusal.clone())
                }
                _ => inner
                    .call(Request::from_parts(parts, body))
                    .await?
                    .map(HeldBody::free),
            };
            if let Some((quota, rest, _)) = asked {
                append(response.headers_mut(), &policy, quota, rest);
            }
            Ok(response)
        })
    }
}

/// Takes a token. Returns the rate, what is left, and the refusal if the rate is used up.
async fn ask(limiter: &RateLimiter) -> Result<(Quota, Rest, Option<Refusal>), Error> {
    let admission = limiter.try_acquire(1).await?;
    // It has a rate, or it would have failed.
    let quota = limiter.quota().unwrap_or_default();
    Ok(match admission {
        Admission::Pass(pass) => {
            let rest = Rest::after(pass.remaining(), pass.reset_after(), quota);
            (quota, rest, None)
        }
        Admission::Refused(refused) => {
            let (tokens, window) = (refused.remaining, refused.retry_after);
            let refusal = Refusal::Limited(refused);
            (quota, Rest { tokens, window }, Some(refusal))
        }
    })
}

impl<D: fmt::Debug> fmt::Debug for RateLimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("policy", &self.policy)
            .field("fail", &self.decided)
            .finish_non_exhaustive()
    }
}
