//! The layer that limits how many requests pass in a time.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderMap, Response, request::Parts},
    routing::get,
};
use redlatch::{Client, ErrorKind, embedded::Server, limit::RateLimiter};
use redlatch_tower::{RateLimitLayer, Refusal};
use tower::Layer;

use super::{ask, reason, request, text, works};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a limit per path, of three at once and one in each second after that; `/free` has none.
fn by_path(client: &Client) -> RateLimitLayer {
    let limits = client.rate_limiter("limit").rate(1, SECOND).burst(3);
    RateLimitLayer::by(move |request: &Parts| match request.uri.path() {
        "/free" => None,
        path => Some(limits.key(path)),
    })
}

/// Returns the values of a field, in order.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let values = headers.get_all(name).iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

/// Returns the value of `RateLimit`.
fn left<B>(response: &Response<B>) -> &str {
    values(response.headers(), "ratelimit")[0]
}

/// Returns what the fields say after one request of a limiter.
async fn fields(limiter: RateLimiter) -> [String; 2] {
    let service = RateLimitLayer::new(limiter).fail_closed().layer(works());
    let response = ask(service, "/", 200).await;
    ["ratelimit-policy", "ratelimit"].map(|name| values(response.headers(), name).join(","))
}

#[tokio::test(start_paused = true)]
async fn requests_above_the_rate_get_429_until_the_time_in_retry_after() {
    let client = Client::embedded().await.unwrap();
    let service = by_path(&client).fail_closed().layer(works());
    for rest in 0..3 {
        let passed = ask(service.clone(), "/a", 200).await;
        let policy = &passed.headers()["ratelimit-policy"];
        assert_eq!(policy, "\"default\";q=1;w=1");
        assert_eq!(left(&passed), format!("\"default\";r={};t=1", 2 - rest));
    }
    let refused = ask(service.clone(), "/a", 429).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(left(&refused), "\"default\";r=0;t=1");
    let refusal = refused.extensions().get();
    assert!(matches!(refusal, Some(Refusal::Limited(_))), "{refusal:?}");
    assert_eq!(text(refused).await, "Too many requests. Try again later.\n");
    tokio::time::advance(SECOND).await;
    ask(service.clone(), "/a", 200).await;
    ask(service, "/a", 429).await;
}

#[tokio::test(start_paused = true)]
async fn keys_share_nothing_and_a_request_without_a_limiter_passes() {
    let client = Client::embedded().await.unwrap();
    let service = by_path(&client).fail_closed().layer(works());
    for _ in 0..3 {
        ask(service.clone(), "/a", 200).await;
    }
    ask(service.clone(), "/a", 429).await;
    let other = ask(service.clone(), "/b", 200).await;
    assert_eq!(left(&other), "\"default\";r=2;t=1");
    for _ in 0..9 {
        let free = ask(service.clone(), "/free", 200).await;
        assert!(!free.headers().contains_key("ratelimit"));
    }
}

#[tokio::test(start_paused = true)]
async fn fields_have_whole_seconds() {
    let client = Client::embedded().await.unwrap();
    let ms = Duration::from_millis;
    for (at, (count, per, policy, limit)) in [
        (100, ms(60_000), "q=100;w=60", "r=99;t=1"),
        (10, ms(100), "q=100;w=1", "r=9;t=1"),
        (1, ms(1_500), "q=2;w=3", "r=0;t=2"),
        (3, ms(700), "q=30;w=7", "r=2;t=1"),
        (2, ms(86_400_000), "q=2;w=86400", "r=1;t=43200"),
    ]
    .into_iter()
    .enumerate()
    {
        let limiter = client.rate_limiter(format!("{at}")).rate(count, per);
        let expected = [policy, limit].map(|item| format!("\"default\";{item}"));
        assert_eq!(fields(limiter).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn window_ends_when_the_next_token_is_free() {
    let client = Client::embedded().await.unwrap();
    let limiter = client.rate_limiter("a").rate(3, Duration::from_secs(30));
    let service = RateLimitLayer::new(limiter).fail_closed().layer(works());
    for (wait, code, expected) in [
        (0, 200, "r=2;t=10"),
        (4, 200, "r=1;t=6"),
        (5, 200, "r=0;t=1"),
        (0, 429, "r=0;t=1"),
    ] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        let response = ask(service.clone(), "/", code).await;
        assert_eq!(left(&response), format!("\"default\";{expected}"));
    }
}

#[tokio::test(start_paused = true)]
async fn layers_of_several_policies_add_items() {
    let client = Client::embedded().await.unwrap();
    let layer = |name, count| {
        let limiter = client.rate_limiter(name).rate(count, SECOND);
        RateLimitLayer::new(limiter).policy(name).fail_closed()
    };
    let service = layer("all", 9).layer(layer("a \"b\" \\", 5).layer(works()));
    let response = ask(service, "/", 200).await;
    let limits = values(response.headers(), "ratelimit");
    assert_eq!(limits, [r#""a \"b\" \\";r=4;t=1"#, r#""all";r=8;t=1"#]);
    assert_eq!(values(response.headers(), "ratelimit-policy").len(), 2);
}

#[tokio::test(start_paused = true)]
#[should_panic = "printable ASCII"]
async fn policy_is_printable() {
    let client = Client::embedded().await.unwrap();
    drop(by_path(&client).policy("prioritäten"));
}

#[tokio::test(start_paused = true)]
async fn server_that_is_gone_opens_or_closes() {
    let server = Server::start();
    let builder = server.builder().patience(SECOND);
    let client = builder.connect().await.unwrap();
    server.engine().stop();
    let closed = by_path(&client).fail_closed().layer(works());
    let refused = ask(closed, "/a", 503).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(reason(&refused).is_transient());
    let open = by_path(&client).fail_open().layer(works());
    let passed = ask(open, "/a", 200).await;
    assert!(!passed.headers().contains_key("ratelimit"));
    assert_eq!(text(passed).await, "worked");
}

#[tokio::test(start_paused = true)]
async fn errors_of_requests_and_of_the_program_open_nothing() {
    let client = Client::embedded().await.unwrap();
    let _guard = client.lock("limit:/taken").lock().await.unwrap();
    let service = by_path(&client).fail_open().layer(works());
    for path in [&format!("/{}", "x".repeat(512)), "/taken"] {
        let refused = ask(service.clone(), path, 400).await;
        let refusal = refused.extensions().get();
        assert!(matches!(refusal, Some(Refusal::Invalid(_))), "{refusal:?}");
    }
    let no_rate = RateLimitLayer::new(client.rate_limiter("a")).fail_open();
    let refused = ask(no_rate.layer(works()), "/", 500).await;
    assert_eq!(reason(&refused).kind(), ErrorKind::InvalidOption);
}

#[tokio::test(start_paused = true)]
async fn dropped_request_leaves_its_token() {
    let client = Client::embedded().await.unwrap();
    let never = Router::new().fallback(get(std::future::pending::<()>));
    let mut service = by_path(&client).fail_closed().layer(never);
    let mut working = tower::Service::call(&mut service, request("/a"));
    tokio::select! {
        biased;
        _ = &mut working => panic!("it does not end"),
        () = tokio::time::sleep(SECOND / 10) => {}
    }
    drop(working);
    client.settled().await;
    let limiter = client.rate_limiter("limit").rate(1, SECOND).burst(3);
    let level = limiter.key("/a").peek().await.unwrap();
    assert_eq!(level.remaining(), 2);
}
