//! The use of holds by workers, and its records.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::record::{Attempt, Hold, Outcome, Record};
use fastrand::Rng;
use redlatch::{AnyGuard, Client, Error};
use redlatch_tests::hold::{self, ReleaseOutcome};
use tokio::time::timeout;

use super::{PATIENCE, Wanted, millis};
use crate::{clock::now, history::History};

/// The resources of a worker.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) clients: Arc<Vec<Client>>,
    /// The clients of independent servers for the red-lock. The first of them is that of
    /// `clients[n]`.
    pub(crate) nodes: Arc<Vec<Vec<Client>>>,
    /// The number of replicas that a durable grant requires.
    pub(crate) replicas: u32,
    pub(crate) history: Arc<History>,
    pub(crate) stop: Arc<AtomicBool>,
    /// The number of the worker.
    pub(crate) worker: u32,
}

impl Bench {
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn client(&self, random: &mut Rng) -> &Client {
        &self.clients[random.usize(..self.clients.len())]
    }

    /// Runs an acquisition. One in five is given up soon.
    pub(crate) async fn acquire<G, A>(
        &self,
        random: &mut Rng,
        what: Wanted<'_>,
        acquisition: A,
    ) -> Option<(Hold, G)>
    where
        A: IntoFuture<Output = Result<G, Error>>,
    {
        let patience = if random.u8(..5) == 0 {
            millis(random, 0..60)
        } else {
            PATIENCE
        };
        let asked = now();
        let outcome = timeout(patience, acquisition.into_future()).await;
        let mut hold = Hold {
            process: self.worker,
            units: what.units,
            limit: what.limit,
            durable: what.durable,
            ..Hold::granted(what.kind, &what.names[0], asked)
        };
        hold.id = self.history.id();
        hold.owner = hold.id;
        let outcome = match outcome {
            Ok(outcome) => match self.history.note(outcome) {
                Some(given) => return Some((hold, given)),
                None => Outcome::Info,
            },
            Err(_) if patience < PATIENCE => Outcome::Info,
            Err(_) if what.bounded => {
                self.endless(&format!("to try {:?}", what.names), PATIENCE);
                Outcome::Info
            }
            Err(_) => Outcome::Late,
        };
        self.got_nothing(what, &hold, outcome);
        None
    }

    /// Runs an acquisition that may be refused.
    pub(crate) async fn attempt<G, A>(
        &self,
        random: &mut Rng,
        what: Wanted<'_>,
        attempt: A,
    ) -> Option<(Hold, G)>
    where
        A: IntoFuture<Output = Result<Option<G>, Error>>,
    {
        let what = what.bounded();
        let (hold, given) = self.acquire(random, what, attempt).await?;
        if given.is_none() {
            self.got_nothing(what, &hold, Outcome::Fail);
        }
        Some((hold, given?))
    }

    fn got_nothing(&self, what: Wanted<'_>, hold: &Hold, outcome: Outcome) {
        self.history.add(Record::Attempt(Attempt {
            process: self.worker,
            kind: what.kind.to_owned(),
            names: what.names.to_vec(),
            from: hold.asked,
            until: hold.from,
            outcome,
        }));
    }

    /// Checks P11: runs a call that must end in any case.
    pub(crate) async fn bounded<T>(
        &self,
        what: &str,
        limit: Duration,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        let ended = timeout(limit, call).await.ok();
        if ended.is_none() {
            self.endless(what, limit);
        }
        ended
    }

    fn endless(&self, what: &str, limit: Duration) {
        let what = format!("a call {what} had not ended after {limit:?}");
        self.history.violated(what);
    }

    /// Holds for a while, releases in one of several ways, and records the hold.
    pub(crate) async fn keep(&self, random: &mut Rng, hold: Hold, guard: Box<dyn hold::Hold>) {
        let hold = self.hold(random, hold, guard).await;
        self.history.add(Record::Hold(hold));
    }

    /// Keeps what an acquisition has granted, if anything.
    pub(crate) async fn keep_granted<G>(&self, random: &mut Rng, given: Option<(Hold, G)>)
    where
        G: Into<Box<dyn AnyGuard>>,
    {
        if let Some((hold, guard)) = given {
            self.keep(random, hold, hold::held(guard)).await;
        }
    }

    /// Releases in one of several ways, and records the hold.
    pub(crate) async fn give_back(&self, random: &mut Rng, hold: Hold, guard: Box<dyn hold::Hold>) {
        let hold = self.release(random, hold, guard).await;
        self.history.add(Record::Hold(hold));
    }

    /// Holds for a while, and releases. Returns the record, with the time for which the hold was
    /// believed.
    pub(crate) async fn hold(
        &self,
        random: &mut Rng,
        mut hold: Hold,
        guard: Box<dyn hold::Hold>,
    ) -> Hold {
        let prolongs = random.u8(..if hold.durable { 12 } else { 6 }) == 0;
        // The replicas' knowledge of an extension shows only after the original end.
        let long = prolongs && hold.durable;
        let end = now() + random.u64(0..if long { 2_000_000 } else { 25_000 });
        loop {
            hold.look(&*guard);
            if now() >= end {
                return self.release(random, hold, guard).await;
            }
            if prolongs && random.bool() {
                self.prolong(random, &*guard).await;
            } else {
                let pause = if long { 8_000..80_000 } else { 100..8_000 };
                tokio::time::sleep(Duration::from_micros(random.u64(pause))).await;
            }
        }
    }

    /// Extends a hold. One call in three is given up soon.
    async fn prolong(&self, random: &mut Rng, guard: &dyn hold::Hold) {
        let more = guard.prolong(millis(random, 1_000..3_000));
        let outcome = if random.u8(..3) == 0 {
            timeout(millis(random, 0..60), more).await.ok()
        } else {
            self.bounded("to prolong a hold", PATIENCE, more).await
        };
        if let Some(outcome) = outcome {
            self.history.note(outcome);
        }
    }

    async fn release(&self, random: &mut Rng, mut hold: Hold, guard: Box<dyn hold::Hold>) -> Hold {
        hold.look(&*guard);
        hold.token = guard.fence().unwrap_or(0);
        let outcome = match random.u8(..4) {
            0 => {
                drop(guard);
                None
            }
            // The call is dropped half-way, and the release goes on without its caller.
            1 => timeout(millis(random, 0..3), guard.give_back()).await.ok(),
            _ => {
                let given = guard.give_back();
                self.bounded("to give back", PATIENCE, given).await
            }
        };
        let outcome = outcome.and_then(|outcome| self.history.note(outcome));
        // The waiters of a red-lock retry after pauses, so there is no hand-off to measure.
        if outcome == Some(ReleaseOutcome::Ended) && hold.kind != "red" {
            hold.gone = now();
        }
        hold
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn bench() -> Bench {
        Bench {
            clients: Arc::default(),
            nodes: Arc::default(),
            replicas: 0,
            history: Arc::new(History::in_memory()),
            stop: Arc::default(),
            worker: 0,
        }
    }

    /// Runs acquisitions that never end, often enough that not all of them are given up. Returns
    /// the records and the violations.
    async fn endless(what: Wanted<'_>) -> (Vec<Record>, Vec<String>) {
        let bench = bench();
        let mut random = Rng::with_seed(1);
        for _ in 0..10 {
            let acquisition = pending::<Result<(), Error>>();
            assert!(
                bench
                    .acquire(&mut random, what, acquisition)
                    .await
                    .is_none()
            );
        }
        let history = Arc::into_inner(bench.history).unwrap();
        let finished = history.finish().unwrap();
        (finished.records, finished.violations)
    }

    #[tokio::test(start_paused = true)]
    async fn bounded_call_that_does_not_end_is_a_violation() {
        let (waits, violations) = endless(Wanted::of("lock", &"lock-0".to_owned()).bounded()).await;
        assert!(!waits.iter().any(is_late));
        assert!(!violations.is_empty());
        let bench = bench();
        assert_eq!(
            bench.bounded("to end", PATIENCE, async { 7 }).await,
            Some(7)
        );
        assert_eq!(
            bench.bounded("to end", PATIENCE, pending::<()>()).await,
            None
        );
        let history = Arc::into_inner(bench.history).unwrap();
        assert_eq!(history.finish().unwrap().violations.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn endless_wait_is_recorded() {
        let (waits, violations) = endless(Wanted::of("lock", &"lock-0".to_owned())).await;
        assert_eq!(violations, [""; 0]);
        assert!(!waits.is_empty());
        assert!(waits.iter().any(is_late));
    }

    fn is_late(record: &Record) -> bool {
        matches!(record, Record::Attempt(attempt) if attempt.outcome == Outcome::Late
            && attempt.names == ["lock-0"])
    }
}
