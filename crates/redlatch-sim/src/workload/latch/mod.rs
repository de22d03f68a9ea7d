//! The countdown latch. It has no holds; waiters wait until a generation opens.

mod ledger;

use std::{sync::Arc, time::Duration};

use futures_util::future::join;
use redlatch_core::{Client, Error, ErrorKind, WaitStrategy, runtime::BoxFuture};
use redlatch_latch::CountDownLatch;

use self::ledger::{Deed, Ledger};
use super::{
    Life, Work, Worker, Workload, mutants,
    terms::{draw_strategy, ms},
};
use crate::{
    names::label,
    record::{Outcome, Step},
};

/// The countdown latch, as a workload.
pub(super) static KIND: Workload = Workload {
    prepare,
    // A latch lives for the requested time, and the remains of a deleted one for the retention.
    // Rounding adds up to one ms.
    lives: |_, plan| Some(MILLIS.max(plan.retention + 5_200) + 200 + plan.beyond()),
    checkers: |names| vec![Box::new(Ledger::new(names))],
    ..Workload::new(
        "latch",
        mutants::LATCHES,
        |worker| Box::pin(round(worker)),
        |worker, name| Box::pin(get_on(worker, name)),
    )
};

/// A running wait or count-down; `false` if the wait's time was up.
type Calling = BoxFuture<Result<bool, Error>>;

fn prepare(client: &Client, names: usize) -> Work<'_> {
    Box::pin(async move {
        for name in 0..names {
            // If this fails, the workers find that the latch is not set.
            let latch = CountDownLatch::new(client, label(name));
            let _ = latch.try_set_count(2).ttl(TTL).await;
        }
    })
}

/// Runs one round: sets, counts, waits, deletes.
async fn round(worker: &mut Worker) {
    // With little activity, no later event makes up for a missed one.
    let longest: &[u64] = match worker.plan.patience.is_multiple_of(4) {
        true => &[6_000_000],
        false => &[0, 500_000, 50_000, 50_000],
    };
    worker.think_up_to(longest).await;
    let name = worker.rng.index(worker.plan.names);
    // Clients with an odd number never wait for long: they open all latches once all is healed.
    let patient = worker.number.is_multiple_of(2);
    match worker.rng.below(20) {
        0..=3 => set(worker, name).await,
        4..=8 => count(worker, name).await,
        9..=11 => wait(worker, name, Way::WaitFor).await,
        12 if worker.rng.chance(400) => delete(worker, name).await,
        13..=15 if patient => wait(worker, name, Way::CountDownAndWait).await,
        16.. if patient => wait(worker, name, Way::Wait).await,
        _ => count(worker, name).await,
    }
}

/// Waits for every latch to open, which every worker must see once all is healed.
async fn get_on(worker: &mut Worker, name: usize) -> bool {
    let latch = latch(worker, name);
    let since = worker.exec.now();
    let pause = worker.rng.between(0, 50_000);
    let opened = async {
        worker.sleep(pause).await;
        open(worker, name, &latch).await;
    };
    let waited = async {
        let waited = latch.wait().await;
        note_wait(worker, name, since, waited.map(|()| true), true)
    };
    let (passed, ()) = join(waited, opened).await;
    passed
}

/// Counts down until the latch is open, even if others set it again.
async fn open(worker: &Worker, name: usize, latch: &CountDownLatch) {
    loop {
        let mut down = Counting::begin(worker, name, 1);
        let counted = latch.count_down(1).await;
        down.ended(Some(&counted));
        drop(down);
        match counted {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotSet => {
                let set = latch.try_set_count(1).ttl(TTL).await;
                worker.say(|| format!("sets {}: {set:?}", label(name)));
            }
            Err(error) => {
                worker.say(|| format!("cannot count {} down: {error}", label(name)));
                worker.sleep(20_000).await;
            }
        }
    }
}

async fn set(worker: &mut Worker, name: usize) {
    let count = u32::try_from(worker.rng.between(0, 5)).unwrap_or(1);
    let setting = latch(worker, name).try_set_count(count).ttl(TTL);
    let (what, limit) = (format!("try_set_count({count})"), worker.patience());
    worker.does(name, &what, limit, setting.into_future()).await;
}

async fn delete(worker: &mut Worker, name: usize) {
    let latch = latch(worker, name);
    let deleting: Calling = Box::pin(async move { latch.delete().await });
    let limit = worker.patience();
    worker.does(name, "delete", limit, deleting).await;
}

async fn count(worker: &mut Worker, name: usize) {
    let n = u32::try_from(worker.rng.between(1, 2)).unwrap_or(1);
    let latch = latch(worker, name);
    let mut down = Counting::begin(worker, name, n);
    let counting: Calling = Box::pin(async move { latch.count_down(n).await.map(|_| true) });
    let (what, limit) = (format!("count_down({n})"), worker.patience());
    let counted = worker.does(name, &what, limit, counting).await;
    down.ended(counted.as_ref());
}

/// Makes a call that waits, and that may count down. Reports its end to the ledger.
async fn wait(worker: &mut Worker, name: usize, way: Way) {
    let strategy = draw_strategy(worker);
    // Messages end the wait.
    let prompt = matches!(strategy, WaitStrategy::Notify);
    let latch = latch(worker, name);
    let mut down = None;
    let (limit, waiting) = match way {
        Way::Wait => (u64::MAX, opened(latch.wait().strategy(strategy))),
        Way::WaitFor => {
            let wait = match worker.rng.below(4) {
                0 => Duration::ZERO,
                _ => ms(worker.rng.between(1, 4_000)),
            };
            let waiting = latch.wait_for(wait).strategy(strategy);
            (worker.limit(wait), waiting.into_future())
        }
        Way::CountDownAndWait => {
            down = Some(Counting::begin(worker, name, 1));
            let waiting = latch.count_down_and_wait(1).strategy(strategy);
            (u64::MAX, opened(waiting))
        }
    };
    worker.say(|| format!("begins {way:?} of {}", label(name)));
    let since = worker.exec.now();
    let call = format!("{way:?}");
    let waited = worker.calls(&[name], &call, limit, waiting).await;
    if let Some(down) = &mut down {
        down.ended(waited.as_ref());
    }
    if let Some(waited) = waited {
        note_wait(worker, name, since, waited, prompt);
    }
}

/// Returns a wait that ends only as the latch opens.
fn opened(waiting: impl IntoFuture<IntoFuture = BoxFuture<Result<(), Error>>>) -> Calling {
    let waiting = waiting.into_future();
    Box::pin(async move { waiting.await.map(|()| true) })
}

/// The calls that wait.
#[derive(Clone, Copy, Debug)]
enum Way {
    Wait,
    WaitFor,
    CountDownAndWait,
}

/// A count-down by `n`. Its end is reported to the ledger, even if it is dropped.
struct Counting {
    life: Arc<Life>,
    name: usize,
    n: u32,
    step: Step,
}

impl Counting {
    fn begin(worker: &Worker, name: usize, n: u32) -> Self {
        worker.did(name, &Deed::Counts);
        let step = Step {
            from: worker.exec.now(),
            until: 0,
            outcome: Outcome::Info,
        };
        Self {
            life: Arc::clone(&worker.life),
            name,
            n,
            step,
        }
    }

    /// Handles the result of the call; `None` if it was dropped.
    fn ended<T>(&mut self, counted: Option<&Result<T, Error>>) {
        match counted {
            Some(Ok(_)) => {
                self.life.did(self.name, &Deed::Counted);
                self.step.outcome = Outcome::Ok;
            }
            Some(Err(error)) if error.kind() == ErrorKind::NotSet => self.n = 0,
            _ => {}
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.step.until = self.life.exec.now();
        let (n, step) = (self.n, self.step);
        self.life.did(self.name, &Deed::IsOver { n, step });
    }
}

/// Reports the end of a wait to the ledger. Returns whether the worker has passed.
fn note_wait(
    worker: &Worker,
    name: usize,
    since: u64,
    waited: Result<bool, Error>,
    prompt: bool,
) -> bool {
    worker.say(|| format!("has waited for {}: {waited:?}", label(name)));
    let deed = match &waited {
        Ok(true) => Deed::Passes { since, prompt },
        Ok(false) => Deed::IsShutOut { since },
        Err(error) if error.kind() == ErrorKind::NotSet => Deed::FindsNone { since },
        Err(error) if error.kind() == ErrorKind::Deleted => Deed::IsDeleted { since },
        Err(_) => return false,
    };
    worker.did(name, &deed);
    matches!(waited, Ok(true))
}

fn latch(worker: &Worker, name: usize) -> CountDownLatch {
    CountDownLatch::new(&worker.client, label(name))
}

/// A time longer than any run. Data that are left at the end still have an expiry.
const TTL: Duration = ms(MILLIS);
const MILLIS: u64 = 3_600_000;
