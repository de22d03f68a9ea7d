//! The election, and the fence of what leaders write.

mod ledger;

use std::{convert::identity, sync::Arc, time::Duration};

use redlatch_core::{Token, runtime::Runtime};
use redlatch_election::{Election, Term};
use redlatch_fence::{Fence, Fenced};

use self::ledger::Ledger;
use super::{
    Life, Worker, Workload, mutants,
    work::{AtWork, Works},
};
use crate::{
    faults::Fault,
    names::label,
    record::{self, Outcome, Record},
};

/// Candidates of elections, as a workload. Names with an odd number have fair candidates.
pub(super) static KIND: Workload = Workload {
    // The mark and the data of a fence stay.
    lives: |key, plan| (!key.contains(DATA)).then(|| plan.unused()),
    checkers: |_| vec![Box::<Works>::default(), Box::<Ledger>::default()],
    ..Workload::new(
        "election",
        mutants::LEADERS,
        |worker| Box::pin(round(worker)),
        |worker, name| Box::pin(get_on(worker, name)),
    )
};

/// Runs one round: campaigns, leads for a while, and may drop the call at any time.
async fn round(worker: &mut Worker) {
    worker.think_up_to(&[100_000]).await;
    let name = worker.rng.index(worker.plan.names);
    if worker.has(Fault::Force) && worker.rng.chance(100) {
        // The work of the present leader has its grace then, and nobody else may lead before that
        // is over.
        let force = election(worker, name).force_release().after_lease();
        return worker.forces(name, force, identity).await;
    }
    let shift = Shift::draw(worker, name);
    let election = election(worker, name);
    worker.say(|| format!("campaigns for {}", label(name)));
    let lead = election.lead(async move |term: &Term| shift.work(term).await);
    let led = if worker.rng.chance(300) {
        worker.cancelled(Box::pin(lead), name).await
    } else {
        Some(lead.await)
    };
    worker.say(|| format!("has led {}: {led:?}", label(name)));
}

/// Leads once, which every worker must be able to do once all is healed.
async fn get_on(worker: &mut Worker, name: usize) -> bool {
    let shift = Shift {
        steps: 1,
        tasks: 0,
        writes: Some(0),
        ..Shift::draw(worker, name)
    };
    let election = election(worker, name);
    let led = election.lead(async move |term: &Term| shift.work(term).await);
    led.await.is_ok()
}

fn election(worker: &Worker, name: usize) -> Election {
    let lease = Duration::from_millis(worker.plan.lease);
    let election = Election::new(&worker.client, label(name))
        .lease(lease)
        .durability(worker.plan.durability)
        .value(&worker.label);
    if name % 2 == 1 {
        election.fair()
    } else {
        election
    }
}

/// The work of a leader in one term.
#[derive(Clone)]
struct Shift {
    life: Arc<Life>,
    name: usize,
    fence: Fence,
    /// The number of steps of the work, and the time in µs that each takes.
    steps: u64,
    step: u64,
    /// The number of tasks that work for as long as the term lasts.
    tasks: u64,
    /// When a write is sent that does not care about the term, in µs.
    writes: Option<u64>,
}

impl Shift {
    fn draw(worker: &mut Worker, name: usize) -> Self {
        let lease = worker.plan.lease * 1_000;
        // Some work is longer than a lease.
        let most = if worker.rng.chance(100) { 60 } else { 12 };
        Self {
            life: Arc::clone(&worker.life),
            name,
            fence: Fence::new(&worker.client, format!("{{{}}}{DATA}", label(name))),
            steps: worker.rng.between(0, most),
            step: worker.rng.between(0, 60_000),
            tasks: worker.rng.below(3),
            writes: worker.rng.chance(500).then(|| worker.rng.below(2 * lease)),
        }
    }

    async fn work(&self, term: &Term) {
        let token = term.token();
        self.life.did(self.name, &AtWork::Begins(token.as_u64()));
        for _ in 0..self.tasks {
            let shift = self.clone();
            term.spawn(async move {
                loop {
                    shift.at_work(token);
                    shift.life.sleep(20_000).await;
                }
            });
        }
        if let Some(after) = self.writes {
            let shift = self.clone();
            let late = async move { shift.write(token, after).await };
            self.life.runtime.spawn("late", Box::pin(late));
        }
        for _ in 0..self.steps {
            self.life.sleep(self.step).await;
            self.at_work(token);
        }
    }

    fn at_work(&self, token: Token) {
        self.life.did(self.name, &AtWork::GoesOn(token.as_u64()));
    }

    /// Writes twice behind the fence, perhaps long after the term.
    async fn write(&self, token: Token, after: u64) {
        for part in 0..2 {
            self.life.sleep(after / 2).await;
            let (from, outcome) = (self.life.exec.now(), Outcome::Info);
            let mut writing = Writing {
                shift: self,
                token,
                from,
                outcome,
            };
            // Whether it was refused is judged by what the server did.
            writing.outcome = match self.fence.set(token, format!("{token} {part}")).await {
                Err(_) => Outcome::Info,
                Ok(Fenced::Refused { .. }) => Outcome::Fail,
                Ok(_) => Outcome::Ok,
            };
        }
    }
}

/// A write through the fence, which is recorded for the judge when it ends or is dropped.
struct Writing<'a> {
    shift: &'a Shift,
    token: Token,
    from: u64,
    outcome: Outcome,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Shift { life, name, .. } = self.shift;
        let until = life.exec.now();
        life.watch.tells(|history| {
            history.add(&Record::Fenced(record::Fenced {
                process: u32::try_from(life.proc).unwrap_or(u32::MAX),
                name: history.name(*name),
                token: self.token.as_u64(),
                from: self.from,
                until,
                outcome: self.outcome,
            }));
        });
    }
}

/// The part of a key that only fenced data have.
const DATA: &str = "-data";
