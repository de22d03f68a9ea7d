//! The layers, on a server inside this process, and as services of axum over TCP.

// Tests say what they expect, and connections need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod connections;
mod rate;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::Request,
    http::{Response, StatusCode, request::Parts},
    routing::get,
};
use http_body_util::BodyExt;
use redlatch::{Client, LossCause, Token, embedded::Server};
use redlatch_tower::{
    Decided, LimitLayer, LockLayer, Refusal, Unavailable, Until, path_parameters,
};
use tokio::sync::Notify;
use tower::{Layer, Service, ServiceExt};

const REFUSE: Unavailable = Unavailable::Refuse(StatusCode::BAD_GATEWAY);

fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

/// Sends a request for `path`, and returns the response, which has the status `code`.
async fn ask<S, B>(service: S, path: &str, code: u16) -> Response<B>
where
    S: Service<Request, Response = Response<B>, Error: std::fmt::Debug>,
{
    let response = service.oneshot(request(path)).await.unwrap();
    assert_eq!(response.status(), code, "{path}");
    response
}

/// A service that answers at once.
fn works() -> Router {
    Router::new().fallback(get(async || "worked"))
}

/// Returns the lock of the path of a request; `/free` has none.
fn by_path(client: &Client) -> impl Fn(&Parts) -> Option<redlatch::Lock> + Send + Sync + 'static {
    let client = client.clone();
    move |request| match request.uri.path() {
        "/free" => None,
        path => Some(client.lock(path)),
    }
}

fn limit(client: &Client, permits: u32) -> LimitLayer {
    LimitLayer::new(client.semaphore("limit").permits_if_unset(permits))
}

async fn available(client: &Client) -> u32 {
    client.semaphore("limit").available_permits().await.unwrap()
}

/// Waits until the limit has so many permits again.
async fn eventually_available(client: &Client, permits: u32) {
    let all = async {
        while available(client).await != permits {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, all).await.expect("all permits");
}

/// Waits until the limit has no permit.
async fn all_taken(client: &Client) {
    let semaphore = client.semaphore("limit");
    let left = async || semaphore.totals().await.map(|totals| totals.available);
    // The first acquisition sets the number.
    while left().await.ok() != Some(0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a lock is held.
async fn locked(lock: &redlatch::Lock) {
    while !lock.is_locked().await.unwrap() {
        tokio::task::yield_now().await;
    }
}

/// Returns why a request was refused for a reason of the server or the client.
fn reason<B>(refused: &Response<B>) -> &redlatch::Error {
    match refused.extensions().get() {
        Some(Refusal::Unavailable(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A service that works until it is told to go on.
fn slow(go_on: &Arc<Notify>) -> Router {
    let go_on = Arc::clone(go_on);
    let handler = async move || {
        go_on.notified().await;
        "done"
    };
    Router::new().fallback(get(handler))
}

async fn text(
    response: Response<impl axum::body::HttpBody<Data = Bytes, Error: std::fmt::Debug>>,
) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn readiness_takes_no_permit() {
    let client = Client::embedded().await.unwrap();
    let semaphore = client.semaphore("limit");
    semaphore.set_permits(1).await.unwrap();
    let layer = limit(&client, 1).on_unavailable(REFUSE);
    let service = layer.layer(slow(&Arc::default()));
    let mut ready: Vec<_> = vec![service; 100];
    for service in &mut ready {
        ServiceExt::<Request>::ready(service).await.unwrap();
    }
    assert_eq!(available(&client).await, 1);
}

#[tokio::test(start_paused = true)]
async fn limit_refuses_what_is_too_much_and_says_why() {
    let client = Client::embedded().await.unwrap();
    let go_on = Arc::default();
    let layer = limit(&client, 2).on_unavailable(REFUSE);
    let service = layer.layer(slow(&go_on));
    let working: Vec<_> = (0..2)
        .map(|_| tokio::spawn(service.clone().oneshot(request("/"))))
        .collect();
    all_taken(&client).await;
    let refused = ask(service, "/", 503).await;
    assert!(matches!(refused.extensions().get(), Some(Refusal::Busy)));
    assert_eq!(refused.headers()["retry-after"], "1");
    let content = &refused.headers()["content-type"];
    assert_eq!(content, "text/plain; charset=utf-8");
    let told = "Others are at work on this. Try again.\n";
    assert_eq!(text(refused).await, told);
    let other = limit(&client, 2).on_busy(StatusCode::TOO_MANY_REQUESTS);
    let other = other.on_unavailable(REFUSE);
    ask(other.layer(slow(&go_on)), "/", 429).await;
    // One that waits gets the permit of one that ends.
    let waits = limit(&client, 2).wait(Duration::from_secs(5));
    let waits = waits.on_unavailable(REFUSE);
    let waits = tokio::spawn(waits.layer(slow(&go_on)).oneshot(request("/")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waits.is_finished());
    for _ in 0..3 {
        go_on.notify_one();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for one in working.into_iter().chain([waits]) {
        assert_eq!(text(one.await.unwrap().unwrap()).await, "done");
    }
    eventually_available(&client, 2).await;
}

#[tokio::test(start_paused = true)]
async fn lock_is_per_name_and_its_token_is_in_the_request() {
    let client = Client::embedded().await.unwrap();
    let guard = client.lock("/orders/1").lock().await.unwrap();
    let layer = LockLayer::new(by_path(&client)).on_unavailable(REFUSE);
    let handler = async |token: Option<Extension<Token>>| {
        token.map_or_else(|| "none".to_owned(), |token| token.0.to_string())
    };
    let service = layer.layer(Router::new().fallback(get(handler)));
    ask(service.clone(), "/orders/1", 409).await;
    let other = ask(service.clone(), "/orders/2", 200).await;
    assert!(text(other).await.parse::<u64>().unwrap() > 0);
    assert_eq!(text(ask(service.clone(), "/free", 200).await).await, "none");
    let first = guard.token().to_string();
    guard.release().await.unwrap();
    assert!(text(ask(service, "/orders/1", 200).await).await > first);
}

#[tokio::test(start_paused = true)]
async fn server_that_is_gone_is_answered_as_the_program_has_chosen() {
    let server = Server::start();
    let builder = server.builder().patience(Duration::from_secs(1));
    let client = builder.connect().await.unwrap();
    server.engine().stop();
    let refusing = LockLayer::new(by_path(&client)).on_unavailable(REFUSE);
    let refused = ask(refusing.layer(works()), "/", 502).await;
    let error = reason(&refused);
    assert!(error.is_transient(), "{error}");
    let passing = LockLayer::new(by_path(&client)).on_unavailable(Unavailable::PassThrough);
    let passed = ask(passing.layer(works()), "/", 200).await;
    assert_eq!(text(passed).await, "worked");
    let passing = limit(&client, 1).on_unavailable(Unavailable::PassThrough);
    let passed = ask(passing.layer(works()), "/", 200).await;
    assert_eq!(text(passed).await, "worked");
}

#[tokio::test(start_paused = true)]
async fn client_that_fails_fast_refuses_requests_at_once_during_an_outage() {
    let server = Server::start();
    let builder = server.builder().fail_fast(Duration::from_secs(2));
    let client = builder.connect().await.unwrap();
    let refuse = Unavailable::Refuse(StatusCode::SERVICE_UNAVAILABLE);
    let layer = LockLayer::new(by_path(&client)).wait(Duration::from_secs(60));
    let service = layer.on_unavailable(refuse).layer(works());
    server.engine().refuse_connections(true);
    server.engine().cut_connections();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let start = tokio::time::Instant::now();
    for _ in 0..100 {
        let refused = ask(service.clone(), "/a", 503).await;
        assert_eq!(refused.headers()["retry-after"], "1");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    server.engine().refuse_connections(false);
    // As the header says: the client connects at least once per second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(text(ask(service, "/a", 200).await).await, "worked");
}

/// A service whose lock is named after the order in the path.
fn orders(client: &Client, go_on: &Arc<Notify>) -> Router {
    let client = client.clone();
    let lock = LockLayer::new(move |request: &Parts| {
        let [order] = path_parameters(request, "/orders/{id}")?;
        Some(client.lock(format!("orders:{order}")))
    });
    let go_on = Arc::clone(go_on);
    let handler = async move |axum::extract::Path(id): axum::extract::Path<String>| {
        go_on.notified().await;
        id
    };
    Router::new()
        .route("/orders/{id}", get(handler))
        .layer(lock.on_unavailable(REFUSE))
}

#[tokio::test(start_paused = true)]
async fn two_spellings_of_one_path_have_one_lock() {
    let client = Client::embedded().await.unwrap();
    let go_on = Arc::default();
    let service = orders(&client, &go_on);
    let working = tokio::spawn(service.clone().oneshot(request("/orders/a%20b")));
    locked(&client.lock("orders:a b")).await;
    for same in ["/orders/a%20b", "/orders/%61%20b", "/orders/a%20%62"] {
        ask(service.clone(), same, 409).await;
    }
    go_on.notify_one();
    // The handler sees the value that the name has.
    assert_eq!(text(working.await.unwrap().unwrap()).await, "a b");
}

#[test]
fn parameters_are_decoded_and_the_rest_of_the_path_is_not() {
    let parts = |path: &str| request(path).into_parts().0;
    let one = |path: &str| path_parameters(&parts(path), "/orders/{id}").map(|[id]| id);
    for (path, parameter) in [
        ("/orders/%34%32?x=/1", "42"),
        ("/orders/a%2Fb", "a/b"),
        ("/orders/100%", "100%"),
        ("/orders/%f", "%f"),
        ("/orders/%C3%A9", "é"),
        ("/orders/%FF", "\u{fffd}"),
    ] {
        assert_eq!(one(path).as_deref(), Some(parameter), "{path}");
    }
    let others = "/orders /orders/ /orders/1/ /orders/1/2 /%6Frders/1 /";
    for other in others.split(' ') {
        assert_eq!(one(other), None, "{other}");
    }
    let rest = path_parameters(&parts("/a/1/b/2/3"), "/a/{id}/b/{*rest}");
    assert_eq!(rest, Some(["1".to_owned(), "2/3".to_owned()]));
    let none: Option<[String; 1]> = path_parameters(&parts("/a/1/b/"), "/a/1/b/{*rest}");
    assert_eq!(none, None);
}

#[test]
#[should_panic = "has 1 parameters, and 2 are taken from it"]
fn wrong_number_of_parameters_is_found_by_the_first_request() {
    let _: Option<[String; 2]> = path_parameters(&request("/").into_parts().0, "/orders/{id}");
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_through_by_an_invalid_name() {
    let client = Client::embedded().await.unwrap();
    client.semaphore("/taken").set_permits(1).await.unwrap();
    for unavailable in [Unavailable::PassThrough, REFUSE] {
        let layer = LockLayer::new(by_path(&client)).on_unavailable(unavailable);
        let long = format!("/{}", "x".repeat(512));
        for path in [long.as_str(), "/taken"] {
            let refused = ask(layer.layer(works()), path, 400).await;
            let refusal = refused.extensions().get();
            assert!(matches!(refusal, Some(Refusal::Invalid(_))), "{refusal:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_program_and_crowds_do_not_pass() {
    let server = Server::start();
    let client = server.builder().max_waiters(1).connect().await.unwrap();
    // A semaphore without a number of permits.
    let unset = LimitLayer::new(client.semaphore("unset")).on_unavailable(Unavailable::PassThrough);
    ask(unset.layer(works()), "/", 500).await;
    // One request waits, and a second one may not.
    let guard = client.lock("/a").lock().await.unwrap();
    let layer = LockLayer::new(by_path(&client))
        .wait(Duration::from_secs(3600))
        .on_unavailable(Unavailable::PassThrough);
    let waiting = tokio::spawn(layer.layer(works()).oneshot(request("/a")));
    while client.tables().waiters == 0 {
        tokio::task::yield_now().await;
    }
    let refused = ask(layer.layer(works()), "/a", 503).await;
    assert_eq!(reason(&refused).kind(), redlatch::ErrorKind::TooManyWaiters);
    guard.release().await.unwrap();
    assert_eq!(text(waiting.await.unwrap().unwrap()).await, "worked");
}

#[tokio::test(start_paused = true)]
async fn lost_hold_drops_the_work_unless_it_may_pass() {
    let server = Server::start();
    let client = server.client().await.unwrap();
    for (unavailable, status) in [
        (REFUSE, StatusCode::BAD_GATEWAY),
        (Unavailable::PassThrough, StatusCode::OK),
    ] {
        let go_on = Arc::default();
        let layer = LockLayer::new(by_path(&client)).on_unavailable(unavailable);
        let working = tokio::spawn(layer.layer(slow(&go_on)).oneshot(request("/a")));
        locked(&client.lock("/a")).await;
        assert!(server.lose("/a"));
        // The next renewal finds it out.
        tokio::time::sleep(Duration::from_secs(20)).await;
        go_on.notify_one();
        let response = working.await.unwrap().unwrap();
        assert_eq!(response.status(), status);
        if status == StatusCode::BAD_GATEWAY {
            assert_eq!(reason(&response).loss(), Some(LossCause::Forgotten));
            assert_eq!(Arc::strong_count(&go_on), 1, "the work is dropped");
        }
    }
}

/// A service whose body has two parts, the second of which waits.
fn streams(go_on: &Arc<Notify>) -> Router {
    let go_on = Arc::clone(go_on);
    let handler = async move || {
        let parts = futures_util::stream::unfold(["two", "one"].to_vec(), move |mut left| {
            let go_on = Arc::clone(&go_on);
            async move {
                let part = left.pop()?;
                if part == "two" {
                    go_on.notified().await;
                }
                Some((Ok::<_, std::io::Error>(part), left))
            }
        });
        Body::from_stream(parts)
    };
    Router::new().fallback(get(handler))
}

#[tokio::test(start_paused = true)]
async fn permit_is_kept_until_the_head_or_the_end_of_the_body() {
    let client = Client::embedded().await.unwrap();
    for (until, kept) in [(Until::Head, 1), (Until::Body, 0)] {
        let go_on = Arc::default();
        let layer: LimitLayer<Decided> = limit(&client, 1).until(until).on_unavailable(REFUSE);
        let service = layer.layer(streams(&go_on));
        let mut body = ask(service.clone(), "/", 200).await.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first, "one");
        client.settled().await;
        assert_eq!(available(&client).await, kept, "{until:?}");
        go_on.notify_one();
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none());
        // It is free at the end of the body, which still exists.
        client.settled().await;
        assert_eq!(available(&client).await, 1, "{until:?}");
        // A body that is dropped half-way gives it back, too.
        drop(ask(service, "/", 200).await);
        client.settled().await;
        assert_eq!(available(&client).await, 1, "{until:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn body_of_a_lost_hold_ends_with_an_error() {
    let server = Server::start();
    let client = server.client().await.unwrap();
    let layer = LockLayer::new(by_path(&client)).until(Until::Body);
    let layer = layer.on_unavailable(REFUSE);
    let service = layer.layer(streams(&Arc::default()));
    let mut body = ask(service, "/a", 200).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(server.lose("/a"));
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    assert!(body.frame().await.is_none());
}
