//! The rate limiter.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{
    Client, Error,
    limit::{Admission, RateLimiter},
};

use super::{Call, Kind, LONG, SHORT, Wait, calls};

/// The rate limiter.
#[derive(Debug)]
pub(super) struct Limit;

#[async_trait]
impl Kind for Limit {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let limiter = limiter(&clients[0], "limit");
        let estimated = limiter.acquire(5).await.unwrap();
        let mut calls = calls! {
            "limit_acquire": |limiter| limiter.acquire(1);
            "limit_acquire_for": |limiter| limiter.acquire_for(1, SHORT);
            "limit_try_acquire": |limiter| limiter.try_acquire(1);
            "limit_try_acquire_each": |limiter| limiter.try_acquire_each(["a", "b"], 1);
            "limit_reserve": |limiter| limiter.reserve(1);
            "limit_peek": |limiter| limiter.peek();
        };
        let settle = async move { estimated.settle(1).await };
        calls.push(Call::new("limit_settle", Box::pin(settle)));
        calls
    }

    /// The rate lets them pass by itself.
    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let [a, b] = ["a", "b"].map(|name| slow(&clients[0], name));
        // Taken ahead, so that the second wait does not end before the first.
        for (name, seconds) in [("a", 1), ("b", 3)] {
            for _ in 0..=seconds {
                slow(&others[0], name).reserve(1).await.unwrap();
            }
        }
        let rest = || async { Ok::<_, Error>(()) };
        vec![
            Wait::new(
                "limit_acquire",
                Box::pin(async move { a.acquire(1).await }),
                Box::pin(rest()),
            ),
            Wait::new(
                "limit_acquire_for",
                Box::pin(async move {
                    let admission = b.acquire_for(1, LONG).await?;
                    assert!(matches!(admission, Admission::Pass(_)), "it is paid");
                    Ok(())
                }),
                Box::pin(rest()),
            ),
        ]
    }
}

fn limiter(client: &Client, name: &str) -> RateLimiter {
    client
        .rate_limiter(name)
        .rate(1_000, Duration::from_secs(1))
}

/// Returns a limiter that lets one token pass in a second.
fn slow(client: &Client, name: &str) -> RateLimiter {
    let limiter = client.rate_limiter(format!("limit-{name}"));
    limiter.rate(1, Duration::from_secs(1))
}
