//! Candidates that lead for a while and write behind a fence.

use std::{sync::Arc, time::Duration};

use crate::record::{self, Hold, Outcome, Record};
use fastrand::Rng;
use redlatch::{Term, fence::Fenced};
use tokio::time::timeout;

use super::{Bench, PATIENCE, any, millis};
use crate::{clock::now, history::History};

pub(super) async fn round(bench: Bench, mut random: Rng) {
    let name = any(&mut random, "election");
    let client = bench.client(&mut random).clone();
    let election = client
        .election(&name)
        .lease(millis(&mut random, 1_000..3_000));
    // Data and mark end by themselves, so that a run leaves nothing behind.
    let fence = client.fence(format!("{{{name}}}-data")).keep(MINUTE);
    let (working, history) = (bench.clone(), bench.history.clone());
    let span = millis(&mut random, 0..25);
    let lead = async move {
        let mut asked = now();
        let work = async move |term: &Term| {
            let mut at_work = AtWork::begin(&working, term, asked);
            term.spawn(std::future::pending::<()>());
            let end = now() + u64::try_from(span.as_micros()).unwrap_or(0);
            while at_work.goes_on(term) && now() < end {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let mut writing = Writing::begin(&working, term);
            let written = fence.set_for(term.token(), "led", MINUTE).await;
            writing.ended(working.history.note(written));
            at_work.goes_on(term);
            asked = now();
        };
        election.lead(work).await
    };
    // Some calls are dropped while they wait or work.
    let limit = if random.u8(..4) == 0 {
        millis(&mut random, 0..200)
    } else {
        PATIENCE
    };
    if let Ok(outcome) = timeout(limit, lead).await {
        history.note(outcome);
    }
}

/// A term at work. It is recorded when the work ends or is dropped.
struct AtWork {
    bench: Bench,
    hold: Hold,
}

impl AtWork {
    fn begin(bench: &Bench, term: &Term, asked: u64) -> Self {
        let id = bench.history.id();
        let hold = Hold {
            id,
            owner: id,
            process: bench.worker,
            token: term.token().as_u64(),
            ..Hold::granted("election", term.name(), asked)
        };
        let bench = bench.clone();
        Self { bench, hold }
    }

    /// Tells whether the term lasts, and records that it lasted until before the question.
    fn goes_on(&mut self, term: &Term) -> bool {
        let (before, lasts) = (now(), term.check().is_ok());
        self.hold.looked(before, lasts, term.remaining())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.bench.history.add(Record::Hold(self.hold.clone()));
    }
}

/// A write through the fence. It is recorded when it ends or is dropped.
struct Writing {
    history: Arc<History>,
    write: record::Fenced,
}

impl Writing {
    fn begin(bench: &Bench, term: &Term) -> Self {
        let write = record::Fenced {
            process: bench.worker,
            name: term.name().to_owned(),
            token: term.token().as_u64(),
            from: now(),
            until: 0,
            outcome: Outcome::Info,
        };
        let history = Arc::clone(&bench.history);
        Self { history, write }
    }

    fn ended<T>(&mut self, written: Option<Fenced<T>>) {
        self.write.outcome = match written {
            None => Outcome::Info,
            Some(Fenced::Refused { .. }) => Outcome::Fail,
            Some(_) => Outcome::Ok,
        };
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.write.until = now();
        self.history.add(Record::Fenced(self.write.clone()));
    }
}

const MINUTE: Duration = Duration::from_secs(60);
