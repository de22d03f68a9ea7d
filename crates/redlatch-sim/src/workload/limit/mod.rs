//! The rate limiter. Its passes are no holds.

mod ledger;

use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use redlatch_core::{Error, runtime::BoxFuture};
use redlatch_limit::{Admission, Pass, RateLimiter};

use self::ledger::{Deed, Ledger};
use super::{Worker, Workload, mutants, terms::ms};
use crate::{names::label, runtime::micros};

/// The rate limiter, as a workload.
pub(super) static KIND: Workload = Workload {
    // Attempts are remembered for 30 s, and debts are shorter.
    lives: |_, plan| Some(60_000 + plan.beyond()),
    checkers: |_| vec![Box::<Ledger>::default()],
    ..Workload::new(
        "limit",
        mutants::LIMITS,
        |worker| Box::pin(round(worker)),
        |worker, name| Box::pin(get_on(worker, name)),
    )
};

/// A running call, and the pass that it gets.
type Calling = BoxFuture<Result<Option<Pass>, Error>>;

/// The rate of a name: tokens, µs and burst. Their fractions differ.
fn measure(name: usize) -> (u64, u64, u64) {
    [(3, 100_000, 4), (1, 20_000, 1), (7, 300_000, 9)][name % 3]
}

/// Runs one round: takes passes, and settles some of them.
async fn round(worker: &mut Worker) {
    worker.think_up_to(&[500_000, 50_000, 50_000, 0]).await;
    let name = worker.rng.index(worker.plan.names);
    let cost = worker.rng.between(1, measure(name).2);
    let limiter = limiter(worker, name, cost);
    let patience = worker.patience();
    let (limit, call) = match worker.rng.below(10) {
        0..=2 => (patience, tries(worker, name, limiter)),
        3 | 4 => {
            let wait = worker.rng.between(1, 600);
            let call = async move { limiter.acquire_for(cost, ms(wait)).await };
            (patience + wait * 1_000, admitted(call))
        }
        5 | 6 => {
            let call: Calling = Box::pin(async move { limiter.acquire(cost).await.map(Some) });
            (u64::MAX, call)
        }
        7 => return reserve(worker, name, limiter, cost).await,
        _ => {
            let call = async move { limiter.try_acquire(cost).await };
            (patience, admitted(call))
        }
    };
    if let Some(pass) = calls(worker, name, limit, call).await
        && worker.rng.chance(500)
    {
        settle(worker, name, pass).await;
    }
}

/// Takes a pass, which every worker must be able to do once all is healed.
async fn get_on(worker: &mut Worker, name: usize) -> bool {
    let limiter = rated(worker, name, 1, measure(name).2);
    asks(worker, name);
    let got = limiter.acquire(1).await;
    worker.say(|| format!("has asked for {}: {got:?}", label(name)));
    got.inspect(|pass| passed(worker, name, pass)).is_ok()
}

/// Returns a call with the pass that it gets.
fn admitted(call: impl Future<Output = Result<Admission, Error>> + Send + 'static) -> Calling {
    Box::pin(async move { call.await.map(Admission::pass) })
}

/// Begins several tries at the same time, which share a request.
fn tries(worker: &mut Worker, name: usize, limiter: RateLimiter) -> Calling {
    let number = worker.rng.between(2, 6);
    (1..number).for_each(|_| asks(worker, name));
    Box::pin(async move {
        let tries = join_all((0..number).map(|_| limiter.try_acquire(1))).await;
        let mut tries = tries.into_iter();
        tries.try_fold(None, |last, tried| tried.map(|it| it.pass().or(last)))
    })
}

/// Makes a call, and reports its pass.
async fn calls(worker: &mut Worker, name: usize, limit: u64, call: Calling) -> Option<Pass> {
    asks(worker, name);
    let got = worker.does(name, "limit", limit, call).await;
    let pass = got?.ok()??;
    passed(worker, name, &pass);
    Some(pass)
}

/// Takes a pass ahead, and gives it back before it counts, or uses it then.
async fn reserve(worker: &mut Worker, name: usize, limiter: RateLimiter, cost: u64) {
    asks(worker, name);
    let limit = worker.patience();
    let call = Box::pin(async move { limiter.reserve(cost).await });
    let got = worker.does(name, "reserve", limit, call).await;
    let Some(Ok((pass, wait))) = got else {
        return;
    };
    if worker.rng.chance(500) {
        return settle(worker, name, pass).await;
    }
    worker.sleep(micros(wait)).await;
    passed(worker, name, &pass);
}

async fn settle(worker: &mut Worker, name: usize, pass: Pass) {
    worker.think_up_to(&[400_000]).await;
    let actual = match worker.rng.below(8) {
        0 => pass.cost() + 1,
        1..=4 => 0,
        _ => worker.rng.between(0, pass.cost()),
    };
    let limit = worker.patience();
    let (what, settling) = (format!("settle({actual})"), Box::pin(pass.settle(actual)));
    worker.does(name, &what, limit, settling).await;
}

fn asks(worker: &Worker, name: usize) {
    worker.did(name, &Deed::Asks);
}

fn passed(worker: &Worker, name: usize, pass: &Pass) {
    let at = pass.counts_at().duration_since(SystemTime::UNIX_EPOCH);
    let at = at.map_or(0, micros);
    worker.did(name, &Deed::Passes { at });
}

/// Returns the limiter of a name, at times at an eighth of its rate or with the least burst.
fn limiter(worker: &mut Worker, name: usize, cost: u64) -> RateLimiter {
    let slower = if worker.rng.chance(150) { 8 } else { 1 };
    let least = worker.rng.chance(150);
    let burst = if least { cost } else { measure(name).2 };
    rated(worker, name, slower, burst)
}

/// Returns the limiter of a name, so many times slower than its rate.
fn rated(worker: &Worker, name: usize, slower: u64, burst: u64) -> RateLimiter {
    let (count, period, _) = measure(name);
    let limiter = RateLimiter::new(&worker.client, label(name));
    let limiter = limiter.rate(count, Duration::from_micros(period * slower));
    limiter.burst(burst)
}
