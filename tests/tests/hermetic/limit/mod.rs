//! The rate limiter.

mod cancel;
mod lines;
mod trouble;

use redlatch::limit::RateLimiter;

use crate::prelude::*;

/// Starts a server, and returns a client and a limiter that pays one token in an hour.
async fn hourly(burst: u64) -> (Backend, Client, RateLimiter) {
    let (backend, [client]) = preloaded().await;
    let limiter = client.rate_limiter("x").rate(1, HOUR).burst(burst);
    (backend, client, limiter)
}

/// Returns the tokens that are left.
async fn remaining(limiter: &RateLimiter) -> u64 {
    limiter.peek().await.unwrap().remaining()
}

const HOUR: Duration = Duration::from_secs(3600);
