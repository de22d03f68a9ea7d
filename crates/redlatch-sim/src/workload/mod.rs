//! What clients do. Each primitive is a [`Workload`] in a folder of its own, and listed in
//! [`KINDS`].

mod fair;
mod guard;
mod holding;
mod latch;
mod life;
mod lock;
mod multi;
mod pool;
mod red;
mod rwlock;
mod terms;
mod worker;

use std::{fmt, future::Future, pin::Pin};

use redlatch_core::Client;
use redlatch_embedded::engine::{Contents, KeyDump};

pub use self::{
    guard::Guard,
    holding::{Acquiring, Hold, Holding},
    life::Life,
    terms::{How, Terms},
    worker::Worker,
};
use crate::{
    mutants::Mutant,
    plan::Plan,
    rng::Rng,
    scripts::{Ran, Seen},
    watch::Checker,
};

/// One kind of object that seeds work on.
pub type Kind = &'static dyn Workload;

/// All kinds. A seed draws one of them, unless it is told which.
pub static KINDS: &[Kind] = &[
    &lock::Plain,
    &fair::Fair,
    &latch::CountDown,
    &pool::Semaphore,
    &pool::Permits,
    &rwlock::ReadWrite,
    &multi::Several,
    &red::Quorum,
];

/// Something that a worker does.
pub type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What the simulator has to know about one primitive.
///
/// A primitive with guards implements [`Holding`] beside it and leaves [`round`](Self::round) and [`get_on`](Self::get_on) to
/// that.
pub trait Workload: fmt::Debug + Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns how many servers it works on, each with a client of its own in each process.
    fn nodes(&self) -> usize {
        1
    }

    /// Makes the objects that the run needs, if somebody has to; each client calls it when it has
    /// connected, in each of its lives.
    fn prepare<'a>(&'a self, client: &'a Client, names: usize) -> Work<'a> {
        let _ = (client, names);
        Box::pin(async {})
    }

    /// Does what one worker does in one round while there are faults.
    fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a>;

    /// Does what every worker must be able to do with name `name` once all is healed, and gives
    /// back what it took.
    fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a>;

    /// Says what a script of this kind has done. Empty for what no checker has to know.
    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen>;

    /// Returns who holds by this key at server time `now` in ms: owners or attempts, as the server
    /// stores them. Empty for keys that only list.
    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String>;

    /// Returns who is registered as waiting by this key: anything that contains the client's id.
    fn waiters(&self, key: &KeyDump) -> Vec<String> {
        let Contents::SortedSet(members) = &key.contents else {
            return Vec::new();
        };
        let members = members.iter();
        members
            .map(|(member, _)| String::from_utf8_lossy(member).into_owned())
            .collect()
    }

    /// Returns how long a key may live on, in ms, if nobody touches it; `None` if it may stay for
    /// good. By default the longest lease, which is an extension by two, the retention of a token,
    /// and the time for which a waiter is registered.
    fn lives(&self, key: &str, plan: &Plan) -> Option<u64> {
        let _ = key;
        Some(plan.lease * 2 + plan.retention + 5_200 + plan.beyond())
    }

    /// Makes the checkers of what only this kind promises.
    fn checkers(&self, names: usize) -> Vec<Box<dyn Checker>> {
        let _ = names;
        Vec::new()
    }

    /// Lists its planted faults.
    fn mutants(&self) -> &'static [Mutant];
}

/// Finds a kind by its name.
pub fn find(name: &str) -> Option<Kind> {
    KINDS.iter().copied().find(|kind| kind.name() == name)
}

/// Draws the kind of a seed, by chance of its own, so that the rest of the seed does not depend on
/// how many kinds there are.
pub fn draw(seed: u64) -> Kind {
    KINDS[Rng::new(seed.rotate_left(32)).index(KINDS.len())]
}
