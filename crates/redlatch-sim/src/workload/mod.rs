//! The workloads of clients. Each primitive is a [`Workload`] in its own folder, listed in
//! [`KINDS`].
//!
//! # Add a primitive
//!
//! Create the folder `workload/<kind>` and add a line to [`KINDS`]:
//!
//! * `mod.rs` contains a unit struct that implements [`Workload`].
//!   * If acquisitions return guards, implement [`Holding`] as well, and take `round` and `get_on`
//!     from the macro `holding_rounds!`. `acquiring!` maps the drawn [`Terms`] to the builders.
//!     Implement [`Guard`] for the guard. Override `part` for a guard that shares its name, `hold`
//!     if a token does not identify the hold, and `fence` for a guard that must not write.
//!   * Otherwise write the functions `round` and `get_on`, which `own_rounds!` calls. Use the
//!     methods of [`Worker`]: `timed` checks P11, `leaves_nothing` checks P10, and `cancelled`
//!     drops a future half-way.
//!   * `prepare` creates objects that must exist first.
//! * `scripts.rs` translates each run of a script into [`Seen`]. [`Ran`] numbers keys, arguments
//!   and items as the header of the script does. `holders` and `waiters` read the keys for P6, P8
//!   and P10.
//! * `mutants.rs` lists planted faults, at least one for each rule that only this kind has. Names
//!   begin with the name of the kind.
//! * A promise of this kind alone is a [`Checker`], which `checkers` returns. A scenario of this
//!   kind alone is a [`Scenario`], which `scenarios` returns.
//!
//! Then run `cargo xtask sim --kind <kind> --seeds 2000`, and the same with `--mutants` instead of
//! `--seeds 2000`. A checker that no planted fault has ever set off checks nothing, so plant one.

#[macro_use]
mod macros;

mod election;
mod fair;
mod guard;
mod holding;
mod latch;
mod life;
mod limit;
mod lock;
mod multi;
mod once;
mod pool;
mod red;
mod rwlock;
mod steps;
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
    scenarios::Scenario,
    scripts::{Ran, Seen},
    watch::Checker,
};

/// A kind of object that seeds use.
pub type Kind = &'static dyn Workload;

/// All kinds. A seed draws one of them, unless one is given.
pub static KINDS: &[Kind] = &[
    &lock::Plain,
    &fair::Fair,
    &latch::CountDown,
    &limit::Limits,
    &once::Jobs,
    &pool::Semaphore,
    &pool::Permits,
    &rwlock::ReadWrite,
    &multi::Several,
    &red::Quorum,
    &election::Leaders,
];

/// A piece of work of a worker.
pub type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The properties of one primitive that the simulator must know.
///
/// A primitive with guards implements [`Holding`] too, which provides [`round`](Self::round) and
/// [`get_on`](Self::get_on).
pub trait Workload: fmt::Debug + Sync {
    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the number of servers that it uses. Each process has a client for each server.
    fn nodes(&self) -> usize {
        1
    }

    /// Creates the objects that the run needs. Each client calls it after it has connected, in each
    /// of its lives.
    fn prepare<'a>(&'a self, client: &'a Client, names: usize) -> Work<'a> {
        let _ = (client, names);
        Box::pin(async {})
    }

    /// Runs one round of a worker while there are faults.
    fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a>;

    /// Does the work that every worker must be able to do with name `name` once all is healed, and
    /// releases what it acquired.
    fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a>;

    /// Returns the actions of a script of this kind. Actions that no checker needs are omitted.
    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen>;

    /// Returns the holders in this key at server time `now` in ms: owners or attempts, as the
    /// server stores them. It is empty for keys of lists. The default reads the owner of a lock.
    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String> {
        lock::holder(key, now).into_iter().collect()
    }

    /// Returns the waiters that this key registers: any text that contains the client's id.
    fn waiters(&self, key: &KeyDump) -> Vec<String> {
        members(key)
    }

    /// Returns the longest remaining time of an unused key in ms; `None` if it may stay for good.
    fn lives(&self, key: &str, plan: &Plan) -> Option<u64> {
        let _ = key;
        Some(plan.unused())
    }

    /// Creates the checkers of the promises of this kind alone.
    fn checkers(&self, names: usize) -> Vec<Box<dyn Checker>> {
        let _ = names;
        Vec::new()
    }

    /// Lists its planted faults.
    fn mutants(&self) -> &'static [Mutant];

    /// Lists the scenarios of this kind alone.
    fn scenarios(&self) -> &'static [Scenario] {
        &[]
    }

    /// Tells whether its seeds may draw this scenario.
    fn takes_part(&self, scenario: &Scenario) -> bool {
        let own = self.scenarios().iter().any(|own| own.name == scenario.name);
        let able = scenario.kinds.is_empty() || scenario.kinds.contains(&self.name());
        own || scenario.is_common() && self.nodes() == 1 && able
    }
}

/// Returns the members of a sorted set; none for another key.
fn members(key: &KeyDump) -> Vec<String> {
    let Contents::SortedSet(members) = &key.contents else {
        return Vec::new();
    };
    let members = members.iter();
    members
        .map(|(member, _)| String::from_utf8_lossy(member).into_owned())
        .collect()
}

/// Returns the members of an ordered queue. The members of other sets have no space: they record
/// until when each client counts as alive, or the operations of a fence.
fn queued(key: &KeyDump) -> Vec<String> {
    let members = members(key).into_iter();
    members.filter(|member| member.contains(' ')).collect()
}

/// Finds a kind by its name.
pub fn find(name: &str) -> Option<Kind> {
    KINDS.iter().copied().find(|kind| kind.name() == name)
}

/// Draws the kind of a seed with separate random numbers, so that the rest of the seed does not
/// depend on the number of kinds.
pub fn draw(seed: u64) -> Kind {
    KINDS[Rng::new(seed.rotate_left(32)).index(KINDS.len())]
}
