//! Rate limiters that calls try, wait for, and settle. The simulator compares their windows, since
//! here a failover may have lost any pass.

use std::time::Duration;

use fastrand::Rng;
use redlatch::{
    Client, Error,
    limit::{Admission, RateLimiter},
};

use super::{Bench, PATIENCE, any};

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
    let outcome = bench.bounded("of a limiter", 2 * PATIENCE, call).await;
    let admission = outcome.and_then(|outcome| bench.history.note(outcome));
    if let Some(pass) = admission.and_then(Admission::pass) {
        bench.history.count("passes of limiters");
        if random.bool() {
            bench.history.note(pass.settle(random.u64(..=cost)).await);
        }
    }
}

/// Takes a pass, as every client must be able to do once all is healthy.
pub(super) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    limiter(client, name).acquire(1).await.map(drop)
}

fn limiter(client: &Client, name: &str) -> RateLimiter {
    let limiter = client.rate_limiter(name);
    limiter.rate(50, Duration::from_secs(1)).burst(BURST)
}

const BURST: u64 = 10;
