//! The use of holds by workers, and its records.

use std::{
    future::{Future, IntoFuture},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::record::{Attempt, Hold, Outcome, Record};
use fastrand::Rng;
use redlatch::{Client, Error};
use redlatch_tests::hold::{self, ReleaseOutcome};
use tokio::time::timeout;

use super::{Asked, Belief, Entry, PATIENCE, Wanted, millis};
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
    ) -> Option<(Asked, G)>
    where
        A: IntoFuture<Output = Result<G, Error>>,
    {
        let patience = if random.u8(..5) == 0 {
            millis(random, 0..60)
        } else {
            PATIENCE
        };
        let at = now();
        let outcome = timeout(patience, acquisition.into_future()).await;
        let granted = now();
        let id = self.history.id();
        let asked = Asked {
            id,
            owner: id,
            at,
            granted,
        };
        let outcome = match outcome {
            Ok(outcome) => match self.history.note(outcome) {
                Some(given) => return Some((asked, given)),
                None => Outcome::Info,
            },
            Err(_) if patience < PATIENCE => Outcome::Info,
            Err(_) if what.bounded => {
                self.endless(&format!("to try {:?}", what.names));
                Outcome::Info
            }
            Err(_) => Outcome::Late,
        };
        self.got_nothing(what, asked, outcome);
        None
    }

    /// Runs an acquisition that may be refused.
    pub(crate) async fn attempt<G, A>(
        &self,
        random: &mut Rng,
        what: Wanted<'_>,
        attempt: A,
    ) -> Option<(Asked, G)>
    where
        A: IntoFuture<Output = Result<Option<G>, Error>>,
    {
        let what = what.bounded();
        let (asked, given) = self.acquire(random, what, attempt).await?;
        if given.is_none() {
            self.got_nothing(what, asked, Outcome::Fail);
        }
        Some((asked, given?))
    }

    fn got_nothing(&self, what: Wanted<'_>, asked: Asked, outcome: Outcome) {
        self.history.add(Record::Attempt(Attempt {
            process: self.worker,
            kind: what.kind.to_owned(),
            names: what.names.to_vec(),
            from: asked.at,
            until: asked.granted,
            outcome,
        }));
    }

    /// Checks P11: runs a call that must end in any case.
    pub(crate) async fn bounded<T>(&self, what: &str, call: impl Future<Output = T>) -> Option<T> {
        let ended = timeout(PATIENCE, call).await.ok();
        if ended.is_none() {
            self.endless(what);
        }
        ended
    }

    fn endless(&self, what: &str) {
        let what = format!("a call {what} had not ended after {PATIENCE:?}");
        self.history.violated(what);
    }

    /// Holds for a while, releases in one of several ways, and records for how long the hold was
    /// believed, for each of its names, which have these tokens.
    pub(crate) async fn hold(
        &self,
        random: &mut Rng,
        entry: Entry,
        asked: Asked,
        parts: Vec<(String, u64)>,
        guard: Box<dyn hold::Hold>,
    ) {
        let mut belief = Belief::since(asked.granted);
        let prolongs = random.u8(..if entry.durable { 12 } else { 6 }) == 0;
        // The replicas' knowledge of an extension shows only after the original end.
        let long = prolongs && entry.durable;
        let end = now() + random.u64(0..if long { 2_000_000 } else { 25_000 });
        loop {
            belief.look(&*guard);
            if now() >= end {
                break;
            }
            if prolongs && random.bool() {
                self.prolong(random, &*guard).await;
            } else {
                let pause = if long { 8_000..80_000 } else { 100..8_000 };
                tokio::time::sleep(Duration::from_micros(random.u64(pause))).await;
            }
        }
        self.give_back(random, entry, asked, belief, parts, guard)
            .await;
    }

    /// Extends a hold. One call in three is given up soon.
    async fn prolong(&self, random: &mut Rng, guard: &dyn hold::Hold) {
        let more = guard.prolong(millis(random, 1_000..3_000));
        let outcome = if random.u8(..3) == 0 {
            timeout(millis(random, 0..60), more).await.ok()
        } else {
            self.bounded("to prolong a hold", more).await
        };
        if let Some(outcome) = outcome {
            self.history.note(outcome);
        }
    }

    /// Releases, and records the hold in the history.
    pub(crate) async fn give_back(
        &self,
        random: &mut Rng,
        entry: Entry,
        asked: Asked,
        mut belief: Belief,
        parts: Vec<(String, u64)>,
        guard: Box<dyn hold::Hold>,
    ) {
        belief.look(&*guard);
        let gone = match random.u8(..4) {
            0 => {
                drop(guard);
                0
            }
            // The call is dropped half-way, and the release goes on without its caller.
            1 => match timeout(millis(random, 0..3), guard.give_back()).await {
                Ok(outcome) => self.gone(entry, outcome),
                Err(_) => 0,
            },
            _ => {
                let outcome = self.bounded("to give back", guard.give_back()).await;
                outcome.map_or(0, |outcome| self.gone(entry, outcome))
            }
        };
        for part in parts {
            self.held(entry, asked, belief, part, gone);
        }
    }

    /// Records a hold.
    pub(crate) fn held(
        &self,
        entry: Entry,
        asked: Asked,
        belief: Belief,
        (name, token): (String, u64),
        gone: u64,
    ) {
        self.history.add(Record::Hold(Hold {
            id: asked.id,
            owner: asked.owner,
            process: self.worker,
            kind: entry.kind.to_owned(),
            name,
            units: entry.units,
            limit: entry.limit,
            token,
            asked: asked.at,
            from: asked.granted,
            until: belief.until,
            deadline: belief.deadline,
            gone,
            durable: entry.durable,
        }));
    }

    fn gone(&self, entry: Entry, outcome: Result<ReleaseOutcome, Error>) -> u64 {
        let ended = self.history.note(outcome) == Some(ReleaseOutcome::Ended);
        if ended && entry.notifies { now() } else { 0 }
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
        assert_eq!(bench.bounded("to end", async { 7 }).await, Some(7));
        assert_eq!(bench.bounded("to end", pending::<()>()).await, None);
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
