//! The limit of a rate limiter: a bare script of the generic cell rate algorithm, as most libraries
//! have it, through the client crate that redlatch uses. It counts a repeated request twice. It is
//! not for production use.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::limit::{Admission, RateLimiter};

use super::{Failure, Lock, SCRIPTED, Session, scripted::Scripted};

/// Takes a token that costs `ARGV[1]` µs, of a burst of `ARGV[2]` µs. Returns the µs to wait, 0 for
/// a pass, and the µs until the whole burst is free.
const GCRA: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local free = math.max(redis.call('GET', KEYS[1]) or now, now) + ARGV[1]
local wait = free - now - ARGV[2]
if wait > 0 then return {wait, free - now - ARGV[1]} end
redis.call('SET', KEYS[1], string.format('%.0f', free), 'PX', math.ceil((free - now) / 1000))
return {0, free - now}";

/// The tokens in a second, and at once, more than a round takes: all checks pass, and keys last.
const RATE: u64 = 1_000;
const BURST: u64 = 1_000_000;

struct Bare {
    scripted: Scripted,
    key: String,
}

/// Connects the bare script.
pub(super) async fn session(url: &str) -> Result<Session, Failure> {
    let scripted = Scripted::connect(url, &[GCRA]).await?;
    Ok(Session::new(SCRIPTED, move |name| Bare {
        scripted: scripted.clone(),
        key: name.to_owned(),
    }))
}

/// A check is an acquisition, and nothing is released.
#[async_trait]
impl Lock for Bare {
    async fn acquire(&mut self) -> Result<(), Failure> {
        let cost = 1_000_000 / RATE;
        let arguments = (cost, cost * BURST);
        let (wait, _): (u64, u64) = self.scripted.call(0, &self.key, arguments).await?;
        if wait == 0 {
            Ok(())
        } else {
            Err("the bare script has refused".into())
        }
    }
}

/// The rate limiter of redlatch.
pub(super) struct Check(RateLimiter);

impl Check {
    pub(super) fn new(client: &redlatch::Client, name: &str) -> Self {
        let limiter = client.rate_limiter(name);
        Self(limiter.rate(RATE, Duration::from_secs(1)).burst(BURST))
    }
}

#[async_trait]
impl Lock for Check {
    async fn acquire(&mut self) -> Result<(), Failure> {
        match self.0.try_acquire(1).await? {
            Admission::Pass(_) => Ok(()),
            Admission::Refused(refused) => Err(format!("{refused:?}").into()),
        }
    }
}
