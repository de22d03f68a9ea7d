//! The rate limiter. Its passes are no holds.

mod ledger;
mod mutants;
mod scenarios;

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use redlatch_core::Error;
use redlatch_embedded::engine::KeyDump;
use redlatch_limit::{Admission, Pass, RateLimiter};

use self::ledger::{Deed, Ledger};
use super::{Work, Worker, Workload, terms::ms};
use crate::{
    mutants::Mutant,
    names::label,
    plan::Plan,
    scenarios::Scenario,
    scripts::{Ran, Seen},
    watch::Checker,
};

/// The rate limiter, as a workload.
#[derive(Debug)]
pub(super) struct Limits;

/// A running call, and the pass that it gets.
type Calling = Pin<Box<dyn Future<Output = Result<Option<Pass>, Error>> + Send>>;

impl Workload for Limits {
    fn name(&self) -> &'static str {
        "limit"
    }

    own_rounds!();

    /// Returns the passes, which must not be late.
    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        let passes = ran.verdict() == "passed" && ran.number(3) > Some(0);
        let Some(name) = ran.name().filter(|_| passes && ran.number(7).is_some()) else {
            return Vec::new();
        };
        let attempt = ran.arg(4).to_owned();
        vec![Seen::Granted { name, attempt }]
    }

    fn holders(&self, _: &KeyDump, _: u64) -> Vec<String> {
        Vec::new()
    }

    /// Returns no waiters: the ids in a limiter are those of remembered attempts.
    fn waiters(&self, _: &KeyDump) -> Vec<String> {
        Vec::new()
    }

    /// Returns the lifetime of a key: attempts are remembered for 30 s, and debts are shorter.
    fn lives(&self, _: &str, plan: &Plan) -> Option<u64> {
        Some(60_000 + plan.beyond())
    }

    fn checkers(&self, names: usize) -> Vec<Box<dyn Checker>> {
        vec![Box::new(Ledger::new(names))]
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }

    fn scenarios(&self) -> &'static [Scenario] {
        scenarios::ALL
    }
}

/// The rate of a name: tokens, µs and burst. Their fractions differ.
fn measure(name: usize) -> (u64, u64, u64) {
    [(3, 100_000, 4), (1, 20_000, 1), (7, 300_000, 9)][name % 3]
}

/// Runs one round: takes passes, and settles some of them.
async fn round(worker: &mut Worker) {
    let think = match worker.rng.below(4) {
        0 => worker.rng.between(0, 500_000),
        1 | 2 => worker.rng.between(0, 50_000),
        _ => 0,
    };
    worker.think(think).await;
    let name = worker.rng.index(worker.plan().names);
    let cost = worker.rng.between(1, measure(name).2);
    let limiter = limiter(worker, name, cost);
    let pass = match worker.rng.below(10) {
        0..=2 => tries(worker, name, limiter).await,
        3 | 4 => {
            let wait = worker.rng.between(1, 600);
            let call = async move {
                limiter
                    .acquire_for(cost, ms(wait))
                    .await
                    .map(Admission::pass)
            };
            let limit = worker.patience() + wait * 1_000;
            calls(worker, name, limit, Box::pin(call)).await
        }
        5 | 6 => {
            let call = async move { limiter.acquire(cost).await.map(Some) };
            calls(worker, name, u64::MAX, Box::pin(call)).await
        }
        7 => return reserve(worker, name, limiter, cost).await,
        _ => {
            let call = async move { limiter.try_acquire(cost).await.map(Admission::pass) };
            let limit = worker.patience();
            calls(worker, name, limit, Box::pin(call)).await
        }
    };
    if let Some(pass) = pass
        && worker.rng.chance(500)
    {
        settle(worker, name, pass).await;
    }
}

/// Takes a pass, which every worker must be able to do once all is healed.
async fn get_on(worker: &mut Worker, name: usize) {
    let (count, period, burst) = measure(name);
    let limiter = RateLimiter::new(&worker.client, label(name))
        .rate(count, Duration::from_micros(period))
        .burst(burst);
    loop {
        asks(worker, name);
        match limiter.acquire(1).await {
            Ok(pass) => return passed(worker, name, &pass),
            Err(error) => worker.say(|| format!("cannot pass {}: {error}", label(name))),
        }
        worker.sleep(20_000).await;
    }
}

/// Sends several tries at the same time, which share a request.
async fn tries(worker: &mut Worker, name: usize, limiter: RateLimiter) -> Option<Pass> {
    let number = worker.rng.between(2, 6);
    (1..number).for_each(|_| asks(worker, name));
    let call = async move {
        let tries = join_all((0..number).map(|_| limiter.try_acquire(1))).await;
        let mut last = None;
        for admission in tries {
            last = admission?.pass().or(last);
        }
        Ok(last)
    };
    let limit = worker.patience();
    calls(worker, name, limit, Box::pin(call)).await
}

/// Makes a call, and reports its pass.
async fn calls(worker: &mut Worker, name: usize, limit: u64, call: Calling) -> Option<Pass> {
    asks(worker, name);
    let (got, _) = worker.calls(&[name], "limit", limit, call).await;
    worker.say(|| format!("has asked for {}: {got:?}", label(name)));
    let pass = got?.ok()??;
    passed(worker, name, &pass);
    Some(pass)
}

/// Takes a pass ahead, and gives it back before it counts, or uses it then.
async fn reserve(worker: &mut Worker, name: usize, limiter: RateLimiter, cost: u64) {
    asks(worker, name);
    let limit = worker.patience();
    let call = Box::pin(async move { limiter.reserve(cost).await });
    let (got, _) = worker.calls(&[name], "reserve", limit, call).await;
    worker.say(|| format!("has reserved {}: {got:?}", label(name)));
    let Some(Ok((pass, wait))) = got else {
        return;
    };
    if worker.rng.chance(500) {
        return settle(worker, name, pass).await;
    }
    worker
        .sleep(u64::try_from(wait.as_micros()).unwrap_or(0))
        .await;
    passed(worker, name, &pass);
}

async fn settle(worker: &mut Worker, name: usize, pass: Pass) {
    let think = worker.rng.between(0, 400_000);
    worker.think(think).await;
    let actual = match worker.rng.below(8) {
        0 => pass.cost() + 1,
        1..=4 => 0,
        _ => worker.rng.between(0, pass.cost()),
    };
    let limit = worker.patience();
    let settling = Box::pin(pass.settle(actual));
    let (settled, _) = worker.calls(&[name], "settle", limit, settling).await;
    worker.say(|| format!("settles {} to {actual}: {settled:?}", label(name)));
}

fn asks(worker: &Worker, name: usize) {
    worker.watch().did(worker.life.proc, name, &Deed::Asks);
}

fn passed(worker: &Worker, name: usize, pass: &Pass) {
    let at = pass.counts_at().duration_since(SystemTime::UNIX_EPOCH);
    let at = at.map_or(0, |at| u64::try_from(at.as_micros()).unwrap_or(0));
    worker
        .watch()
        .did(worker.life.proc, name, &Deed::Passes { at });
}

/// Returns the limiter of a name, at times at an eighth of its rate or with the least burst.
fn limiter(worker: &mut Worker, name: usize, cost: u64) -> RateLimiter {
    let (count, period, burst) = measure(name);
    let slower = if worker.rng.chance(150) { 8 } else { 1 };
    let burst = if worker.rng.chance(150) { cost } else { burst };
    RateLimiter::new(&worker.client, label(name))
        .rate(count, Duration::from_micros(period * slower))
        .burst(burst)
}
