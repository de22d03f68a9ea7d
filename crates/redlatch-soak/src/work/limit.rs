//! Rate limiters that calls try, wait for, and settle. The simulator compares their windows, since
//! here a failover may have lost any pass.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{Client, limit::Admission, limit::RateLimiter};
use tokio::time::timeout;

use super::{Bench, PATIENCE, Visit, any};

/// Takes one pass, and settles some of them.
pub(super) async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "limit");
    let limiter = limiter(bench.client(&mut random), &name);
    let cost = random.u64(1..=BURST);
    let call = async {
        match random.u8(..3) {
            0 => limiter.try_acquire(cost).await,
            1 => limiter.acquire_for(cost, Duration::from_millis(200)).await,
            _ => limiter.acquire(cost).await.map(Admission::Pass),
        }
    };
    let Ok(outcome) = timeout(2 * PATIENCE, call).await else {
        let what = format!("a call of a limiter had not ended after {:?}", 2 * PATIENCE);
        return bench.history.violated(what);
    };
    let pass = bench.history.note(outcome).and_then(Admission::pass);
    if let Some(pass) = pass {
        bench.history.count("passes of limiters");
        if random.bool() {
            bench.history.note(pass.settle(random.u64(..=cost)).await);
        }
    }
}

/// Takes a pass, as every client must be able to do once all is healthy.
pub(super) fn visit<'a>(client: &'a Client, name: &'a str) -> Visit<'a> {
    Box::pin(async move { limiter(client, name).acquire(1).await.map(drop) })
}

fn limiter(client: &Client, name: &str) -> RateLimiter {
    let limiter = client.rate_limiter(name);
    limiter.rate(50, Duration::from_secs(1)).burst(BURST)
}

const BURST: u64 = 10;
