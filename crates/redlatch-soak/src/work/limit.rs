//! Rate limiters that calls try, wait for, and settle.

use std::time::{Duration, SystemTime};

use fastrand::Rng;
use redlatch::{
    Client, Error,
    limit::{Admission, RateLimiter},
};

use super::{Bench, PATIENCE, any};
use crate::{
    clock::now,
    record::{Pass, Record},
};

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
    let from = now();
    let outcome = bench.bounded("of a limiter", 2 * PATIENCE, call).await;
    let admission = outcome.and_then(|outcome| bench.history.note(outcome));
    if let Some(pass) = admission.and_then(Admission::pass) {
        let at = pass.counts_at().duration_since(SystemTime::UNIX_EPOCH);
        let mut record = Pass {
            process: bench.worker,
            name,
            count: RATE.0,
            per: u64::try_from(RATE.1.as_micros()).unwrap_or(u64::MAX),
            burst: BURST,
            cost,
            back: 0,
            at: u64::try_from(at.unwrap_or_default().as_micros()).unwrap_or(u64::MAX),
            from,
            until: now(),
        };
        if random.bool() {
            record.cost = random.u64(..=cost);
            record.back = cost - record.cost;
            bench.history.note(pass.settle(record.cost).await);
            record.until = now();
        }
        bench.history.add(Record::Pass(record));
    }
}

/// Takes a pass, as every client must be able to do once all is healthy.
pub(super) async fn visit(client: &Client, name: &str) -> Result<(), Error> {
    limiter(client, name).acquire(1).await.map(drop)
}

fn limiter(client: &Client, name: &str) -> RateLimiter {
    let limiter = client.rate_limiter(name);
    limiter.rate(RATE.0, RATE.1).burst(BURST)
}

/// A rate that is often at its limit.
const RATE: (u64, Duration) = (50, Duration::from_secs(1));

const BURST: u64 = 10;
