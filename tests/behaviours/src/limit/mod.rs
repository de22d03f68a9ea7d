//! The rate limiter.

pub mod behaviour;
pub mod waiting;

use redlatch::limit::{Admission, RateLimiter, Refused};

use crate::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a limiter of a client of its own.
pub async fn limiter(backend: &Backend, count: u64, per: Duration, burst: u64) -> RateLimiter {
    let client = backend.client().await;
    client.rate_limiter("x").rate(count, per).burst(burst)
}

/// Tries until the limiter refuses. Returns how often it let a call pass, and the refusal.
pub async fn drain(limiter: &RateLimiter, cost: u64) -> (u64, Refused) {
    for passes in 0.. {
        match limiter.try_acquire(cost).await.unwrap() {
            Admission::Pass(_) => {}
            Admission::Refused(refused) => return (passes, refused),
        }
    }
    unreachable!("a limiter refuses")
}

/// Returns the refusal of a call.
#[track_caller]
pub fn refused(answer: Result<Admission, Error>) -> Refused {
    match answer.unwrap() {
        Admission::Refused(refused) => refused,
        Admission::Pass(pass) => panic!("{pass:?}"),
    }
}
