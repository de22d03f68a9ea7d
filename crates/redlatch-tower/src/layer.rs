//! The layers and their settings.

use std::{fmt, sync::Arc, time::Duration};

use http::{StatusCode, request::Parts};
use redlatch::{Lock, Semaphore};
use tower_layer::Layer;

use crate::{
    Unavailable,
    service::{Held, Object},
};

/// How long a request keeps its lock or permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Until {
    /// Until the service has returned the head of its response.
    #[default]
    Head,
    /// Until the body of the response has been sent or dropped.
    Body,
}

/// The state of a layer that does not know yet what to do if the server cannot be asked. Such a
/// layer cannot be used:
///
/// ```compile_fail,E0277
/// # fn example(client: redlatch::Client) -> axum::Router {
/// let limit = redlatch_tower::LimitLayer::new(client.semaphore("reports"));
/// axum::Router::new().layer(limit)
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Undecided(pub(crate) ());

/// The state of a layer that can be used.
#[derive(Clone, Copy, Debug)]
pub struct Decided(pub(crate) Unavailable);

/// Returns what a request needs.
pub(crate) type Source = dyn Fn(&Parts) -> Option<Object> + Send + Sync;

/// The settings that both layers have.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) source: Arc<Source>,
    pub(crate) wait: Duration,
    pub(crate) busy: StatusCode,
    pub(crate) until: Until,
}

impl Settings {
    /// Creates the default settings, which answer with `busy` if others have what a request needs.
    fn new(source: Arc<Source>, busy: StatusCode) -> Self {
        Self {
            source,
            wait: Duration::ZERO,
            busy,
            until: Until::default(),
        }
    }
}

/// Lets at most n requests at a time through, over all replicas that use the same semaphore.
///
/// A request takes a permit in `call`, and gives it back after the response. See the crate's page.
#[derive(Clone, Debug)]
#[must_use = "a layer has no effect before it is added to a service"]
pub struct LimitLayer<D = Undecided> {
    settings: Settings,
    on_unavailable: D,
}

/// Lets one request per name through at a time, over all replicas.
///
/// A request takes its lock in `call`, and gives it back after the response. The extensions of the
/// request have the [`Token`](redlatch::Token) of its hold. See the crate's page.
#[derive(Clone, Debug)]
#[must_use = "a layer has no effect before it is added to a service"]
pub struct LockLayer<D = Undecided> {
    settings: Settings,
    on_unavailable: D,
}

impl LimitLayer {
    /// Creates a layer that takes a permit of `semaphore` for each request.
    ///
    /// The semaphore needs a number of permits: one that is set on the server, or one of
    /// [`permits_if_unset`](Semaphore::permits_if_unset). Otherwise each request is refused as
    /// [`Refusal::Unavailable`](crate::Refusal::Unavailable).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
    /// # use tower::ServiceExt;
    /// use redlatch_tower::{LimitLayer, Unavailable};
    ///
    /// let reports = client.semaphore("reports").permits_if_unset(8); // over all replicas
    /// let refuse = Unavailable::Refuse(StatusCode::SERVICE_UNAVAILABLE);
    /// let limit = LimitLayer::new(reports).on_unavailable(refuse);
    /// # async fn report() -> &'static str { "a report" }
    /// let app: Router = Router::new().route("/", get(report)).layer(limit);
    /// # let response = app.oneshot(Request::new(Body::empty())).await;
    /// # assert_eq!(response.map(|response| response.status()), Ok(StatusCode::OK));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(semaphore: Semaphore) -> Self {
        Self::by(move |_| Some(semaphore.clone()))
    }

    /// Creates a layer that takes a permit of the semaphore that `semaphore` returns for a request,
    /// such as one per user. A request for which it returns `None` passes without a permit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
    /// # use axum::http::request::Parts;
    /// # use tower::ServiceExt;
    /// # use redlatch_tower::Unavailable;
    /// use redlatch_tower::LimitLayer;
    ///
    /// // Two requests at a time for each tenant.
    /// let limit = LimitLayer::by(move |request: &Parts| {
    ///     let tenant = request.headers.get("tenant")?.to_str().ok()?;
    ///     Some(client.semaphore(format!("tenant:{tenant}")).permits_if_unset(2))
    /// });
    /// # let limit = limit.on_unavailable(Unavailable::Refuse(StatusCode::BAD_GATEWAY));
    /// # let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
    /// # let request = Request::builder().header("tenant", "7").body(Body::empty());
    /// # let response = app.oneshot(request.expect("valid")).await;
    /// # assert_eq!(response.map(|response| response.status()), Ok(StatusCode::OK));
    /// # Ok(())
    /// # }
    /// ```
    pub fn by(semaphore: impl Fn(&Parts) -> Option<Semaphore> + Send + Sync + 'static) -> Self {
        let source = Arc::new(move |request: &Parts| semaphore(request).map(Object::Permit));
        Self {
            settings: Settings::new(source, StatusCode::SERVICE_UNAVAILABLE),
            on_unavailable: Undecided(()),
        }
    }
}

impl LockLayer {
    /// Creates a layer that takes the lock that `lock` returns for a request. A request for which
    /// it returns `None` passes without a lock.
    ///
    /// The name of the lock has to be what the handler understands. A path may be written in
    /// several ways: `/orders/%34%32` reaches the same handler as `/orders/42`, with the same
    /// parameter. [`path_parameters`](crate::path_parameters) decodes it as routers do.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::post};
    /// # use axum::http::request::Parts;
    /// # use tower::ServiceExt;
    /// # use redlatch_tower::Unavailable;
    /// use redlatch_tower::{LockLayer, path_parameters};
    ///
    /// // One request per invoice.
    /// let lock = LockLayer::new(move |request: &Parts| {
    ///     let [id] = path_parameters(request, "/invoices/{id}")?;
    ///     Some(client.lock(format!("invoice:{id}")))
    /// });
    /// # let lock = lock.on_unavailable(Unavailable::Refuse(StatusCode::BAD_GATEWAY));
    /// # let app: Router = Router::new().route("/invoices/{id}", post(|| async {})).layer(lock);
    /// # let request = Request::post("/invoices/7").body(Body::empty());
    /// # let response = app.oneshot(request.expect("valid")).await;
    /// # assert_eq!(response.map(|response| response.status()), Ok(StatusCode::OK));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(lock: impl Fn(&Parts) -> Option<Lock> + Send + Sync + 'static) -> Self {
        let source = Arc::new(move |request: &Parts| lock(request).map(Object::Lock));
        Self {
            settings: Settings::new(source, StatusCode::CONFLICT),
            on_unavailable: Undecided(()),
        }
    }
}

macro_rules! settings {
    ($layer:ident, $busy:literal) => {
        impl<D> $layer<D> {
            /// Sets how long a request waits while others have the lock or all permits. Default:
            /// zero, one attempt.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// # use std::time::Duration;
            /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
            /// # use redlatch_tower::{LimitLayer, Unavailable};
            /// # use tower::ServiceExt;
            /// let reports = client.semaphore("reports").permits_if_unset(1);
            /// let limit = LimitLayer::new(reports.clone()).wait(Duration::from_millis(500));
            /// # let limit = limit.on_unavailable(Unavailable::PassThrough);
            /// # async fn report() -> &'static str { "a report" }
            /// let app: Router = Router::new().route("/", get(report)).layer(limit);
            /// // Another replica holds the permit for 200 ms.
            /// let permit = reports.acquire().lease(Duration::from_millis(200)).await?;
            /// let response = app.oneshot(Request::new(Body::empty())).await;
            /// assert_eq!(response.map(|response| response.status()), Ok(StatusCode::OK));
            /// # drop(permit);
            /// # Ok(())
            /// # }
            /// ```
            pub const fn wait(mut self, wait: Duration) -> Self {
                self.settings.wait = wait;
                self
            }

            /// Sets the status of the response if others have the lock or all permits. Default:
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
            /// # use redlatch_tower::{LimitLayer, Unavailable};
            /// # use tower::ServiceExt;
            /// let reports = client.semaphore("reports").permits_if_unset(1);
            /// let limit = LimitLayer::new(reports.clone()).on_busy(StatusCode::TOO_MANY_REQUESTS);
            /// # let limit = limit.on_unavailable(Unavailable::PassThrough);
            /// # async fn report() -> &'static str { "a report" }
            /// let app: Router = Router::new().route("/", get(report)).layer(limit);
            /// let permit = reports.acquire().await?; // another replica
            /// let response = app.oneshot(Request::new(Body::empty())).await;
            /// let status = response.map(|response| response.status());
            /// assert_eq!(status, Ok(StatusCode::TOO_MANY_REQUESTS));
            /// # drop(permit);
            /// # Ok(())
            /// # }
            /// ```
            #[doc = $busy]
            pub const fn on_busy(mut self, status: StatusCode) -> Self {
                self.settings.busy = status;
                self
            }

            /// Sets how long a request keeps its lock or permit. Default: [`Until::Head`].
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// # use axum::{Router, body::Body, http::Request, routing::get};
            /// # use tower::ServiceExt;
            /// # use redlatch_tower::Unavailable;
            /// use redlatch_tower::{LimitLayer, Until};
            ///
            /// let reports = client.semaphore("reports").permits_if_unset(1);
            /// let limit = LimitLayer::new(reports.clone()).until(Until::Body);
            /// # let limit = limit.on_unavailable(Unavailable::PassThrough);
            /// # async fn report() -> &'static str { "a report" }
            /// let app: Router = Router::new().route("/", get(report)).layer(limit);
            /// let response = app.oneshot(Request::new(Body::empty())).await;
            /// assert_eq!(reports.available_permits().await?, 0); // the body is not sent yet
            /// drop(response);
            /// # client.settled().await;
            /// assert_eq!(reports.available_permits().await?, 1);
            /// # Ok(())
            /// # }
            /// ```
            pub const fn until(mut self, until: Until) -> Self {
                self.settings.until = until;
                self
            }

            /// Sets what to do if the lock or the limit cannot be asked, or is lost. There is no
            /// default; a layer without this setting does not compile.
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// # use std::time::Duration;
            /// # use axum::{Router, body::Body, http::{Request, StatusCode}, routing::get};
            /// # use tower::ServiceExt;
            /// use redlatch_tower::{LimitLayer, Unavailable};
            ///
            /// # let server = redlatch::embedded::Server::start();
            /// # let client = server.client().await?;
            /// let reports = client.semaphore("reports").permits_if_unset(1);
            /// let limit = LimitLayer::new(reports).on_unavailable(Unavailable::PassThrough);
            /// # async fn report() -> &'static str { "a report" }
            /// let app: Router = Router::new().route("/", get(report)).layer(limit);
            /// server.stop_for(Duration::from_secs(60));
            /// let response = app.oneshot(Request::new(Body::empty())).await;
            /// let status = response.map(|response| response.status());
            /// assert_eq!(status, Ok(StatusCode::OK)); // without a limit
            /// # Ok(())
            /// # }
            /// ```
            pub fn on_unavailable(self, unavailable: Unavailable) -> $layer<Decided> {
                $layer {
                    settings: self.settings,
                    on_unavailable: Decided(unavailable),
                }
            }
        }

        impl<S> Layer<S> for $layer<Decided> {
            type Service = Held<S>;

            fn layer(&self, inner: S) -> Held<S> {
                Held {
                    inner,
                    settings: self.settings.clone(),
                    on_unavailable: self.on_unavailable.0,
                }
            }
        }
    };
}

settings!(LimitLayer, "503.");
settings!(LockLayer, "409.");

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("wait", &self.wait)
            .field("busy", &self.busy)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
