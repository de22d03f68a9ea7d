//! The calls of objects that count or keep something.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redlatch::{
    Client, CountDownLatch, Error, Token,
    fence::FencedScript,
    limit::{Admission, RateLimiter},
    once::JobRun,
};

use super::{Call, Kind, LONG, SHORT, Wait, calls};

/// The semaphore.
#[derive(Debug)]
pub(super) struct Semaphore;

#[async_trait]
impl Kind for Semaphore {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let semaphore = clients[0].semaphore("semaphore");
        semaphore.set_permits(9).await.unwrap();
        let held = clients[0].semaphore("semaphore-held").permits_if_unset(9);
        let last = held.acquire_many(2).await.unwrap();
        let held = Arc::new(held.acquire_many(2).await.unwrap());
        let mut calls = calls! {
            "acquire": |semaphore| semaphore.acquire();
            "try_acquire": |semaphore| semaphore.try_acquire();
            "try_acquire_for": |semaphore| semaphore.try_acquire_for(SHORT);
            "set_permits": |semaphore| semaphore.set_permits(1);
            "try_set_permits": |semaphore| semaphore.try_set_permits(1);
            "add_permits": |semaphore| semaphore.add_permits(1);
            "drain_permits": |semaphore| semaphore.drain_permits();
            "available_permits": |semaphore| semaphore.available_permits();
            "permits": |semaphore| semaphore.permits();
            "totals": |semaphore| semaphore.totals();
            "holders": |semaphore| semaphore.holders();
            "delete": |semaphore| semaphore.delete();
            "extend": |held| held.extend(SHORT);
        };
        calls.push(Call::new("release", async move { last.release().await }));
        calls
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client, name: &str| {
            let semaphore = client.semaphore(format!("semaphore-{name}"));
            semaphore.permits_if_unset(3)
        };
        let held_a = of(&others[0], "a").acquire_many(2).await.unwrap();
        let held_b = of(&others[0], "b").acquire_many(3).await.unwrap();
        let (a, b) = (of(&clients[0], "a"), of(&clients[0], "b"));
        vec![
            Wait::new(
                "acquire_many",
                async move { a.acquire_many(3).await?.release().await },
                async move { held_a.release().await },
            ),
            Wait::new(
                "try_acquire_for",
                async move { b.try_acquire_for(LONG).await?.unwrap().release().await },
                async move { held_b.release().await },
            ),
        ]
    }
}

/// The semaphore whose permits have ids.
#[derive(Debug)]
pub(super) struct Permits;

#[async_trait]
impl Kind for Permits {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let permits = clients[0].permit_expirable_semaphore("permits");
        permits.set_permits(9).await.unwrap();
        let id = permits.acquire().await.unwrap();
        calls! {
            "acquire": |permits| permits.acquire();
            "acquire_many": |permits| permits.acquire_many(2);
            "extend": |permits, id| permits.extend(&id, SHORT);
            "remaining": |permits, id| permits.remaining(&id);
            "release": |permits, id| permits.release(&id);
            "holders": |permits| permits.holders();
            "delete": |permits| permits.delete();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client| {
            let permits = client.permit_expirable_semaphore("permits-a");
            permits.permits_if_unset(2)
        };
        let (theirs, mine) = (of(&others[0]), of(&clients[0]));
        let held = theirs.acquire_many(2).await.unwrap();
        let call = async move {
            let ids = mine.acquire_many(2).await?;
            mine.release_all(&ids).await
        };
        let free = async move {
            for id in &held {
                theirs.release(id).await?;
            }
            Ok(())
        };
        vec![Wait::new("acquire_many", call, free)]
    }
}

/// The latch.
#[derive(Debug)]
pub(super) struct Latch;

#[async_trait]
impl Kind for Latch {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let latch = clients[0].count_down_latch("latch");
        latch.try_set_count(3).await.unwrap();
        calls! {
            "try_set_count": |latch| latch.try_set_count(1);
            "count_down": |latch| latch.count_down(1);
            "count_down_and_wait": |latch| latch.count_down_and_wait(2);
            "wait": |latch| latch.wait();
            "wait_for": |latch| latch.wait_for(SHORT);
            "count": |latch| latch.count();
            "info": |latch| latch.info();
            "delete": |latch| latch.delete();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client, name: &str| client.count_down_latch(format!("latch-{name}"));
        let [a, b, c] = ["a", "b", "c"].map(|name| of(&clients[0], name));
        vec![
            Wait::new("wait", a.wait(), opens(of(&others[0], "a"), 1).await),
            Wait::new(
                "wait_for",
                async move {
                    assert!(b.wait_for(LONG).await?, "it is open");
                    Ok(())
                },
                opens(of(&others[0], "b"), 1).await,
            ),
            Wait::new(
                "count_down_and_wait",
                c.count_down_and_wait(1),
                opens(of(&others[0], "c"), 2).await,
            ),
        ]
    }
}

/// Sets the latch to `count`, and returns what counts it down once.
async fn opens(
    latch: CountDownLatch,
    count: u32,
) -> impl Future<Output = Result<u32, Error>> + Send + 'static {
    assert!(latch.try_set_count(count).await.unwrap());
    async move { latch.count_down(1).await }
}

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

/// Jobs that run once per slot. No call waits for another run: `serve` looks again by itself.
#[derive(Debug)]
pub(super) struct Jobs;

#[async_trait]
impl Kind for Jobs {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let day = Duration::from_secs(24 * 60 * 60);
        let job = clients[0].once("once").every(day).retries(100);
        calls! {
            "run": |job| job.run(async |_: &JobRun| Ok::<_, String>(()));
            "last": |job| job.last();
            "holder": |job| job.holder();
            "reset": |job| job.reset();
        }
    }
}

/// The fence. Nobody waits for one.
#[derive(Debug)]
pub(super) struct Fence;

#[async_trait]
impl Kind for Fence {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let fence = clients[0].fence("redlatch:fence-data");
        let token = Token::from_u64(1);
        let script = FencedScript::new("return ARGV[1]");
        calls! {
            "set": |fence| fence.set(token, "a");
            "set_for": |fence| fence.set_for(token, "a", LONG);
            "delete": |fence| fence.delete(token);
            "hset": |fence| fence.hset(token, &[("f", "v")]);
            "eval": |fence| fence.eval(token, script, &[], &[b"x"]);
            "raise": |fence| fence.raise(token);
            "mark": |fence| fence.mark();
            "reset": |fence| fence.reset();
        }
    }
}
