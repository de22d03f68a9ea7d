//! The workloads of clients. Each primitive is a [`Workload`], listed in [`KINDS`].
//!
//! # Add a primitive
//!
//! Create a file or a folder in `workload` and add a line to [`KINDS`]:
//!
//! * It contains a static [`Workload`].
//!   * If acquisitions return guards, implement `Guard` for the guard, and begin with
//!     `Workload::of::<TheGuard>`. `acquiring!` maps the drawn `Terms` to the builders. Override
//!     `part` for a guard that shares its name, `hold` if a token does not identify the hold, and
//!     `fence` for a guard that must not write.
//!   * Otherwise begin with `Workload::new`, and write the functions `round` and `get_on`. Use
//!     the methods of [`Worker`]: `timed` checks P11, `leaves_nothing` checks P10, and `cancelled`
//!     drops a future half-way. The checker in `work.rs` covers work under tokens.
//!   * `prepare` creates objects that must exist first.
//! * `workload/seen.rs` translates each run of a script into [`Seen`](crate::scripts::Seen).
//!   [`Ran`](crate::scripts::Ran) numbers keys, arguments and items as the header of the script
//!   does. `holders` reads the keys for P6, P8 and P10, and `waiters` those of all kinds.
//! * `workload/mutants.rs` lists planted faults, at least one for each rule that only this kind
//!   has. Names begin with the name of the kind.
//! * A promise of this kind alone is a [`Checker`], which `checkers` returns. A scenario of this
//!   kind alone is in `scenarios.rs`.
//!
//! Then run `cargo xtask sim --kind <kind> --seeds 2000`, and the same with `--mutants` instead of
//! `--seeds 2000`. A checker that no planted fault has ever set off checks nothing, so plant one.

pub mod changes;
mod election;
mod holding;
mod latch;
mod life;
mod limit;
mod lock;
mod mutants;
mod once;
mod order;
mod pool;
mod queue;
mod red;
mod rwlock;
mod seen;
mod terms;
mod work;
mod worker;

use std::{future::Future, pin::Pin};

use redlatch_core::Client;
use redlatch_embedded::engine::{Contents, KeyDump};

pub(crate) use self::{
    holding::{Acquiring, Guard, Releases, Shown},
    seen::seen,
    terms::Terms,
};
pub use self::{life::Life, worker::Worker};
use crate::{mutants::Mutant, plan::Plan, scenarios::Scenario, watch::Checker};

/// A kind of object that seeds use.
pub type Kind = &'static Workload;

/// All kinds. A seed draws one of them, unless one is given.
pub static KINDS: &[Kind] = &[
    &lock::LOCK,
    &lock::FAIR,
    &latch::KIND,
    &limit::KIND,
    &once::KIND,
    &pool::SEMAPHORE,
    &pool::PERMITS,
    &rwlock::KIND,
    &lock::MULTI,
    &red::KIND,
    &election::KIND,
];

/// A piece of work of a worker.
pub type Work<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

type Round = for<'a> fn(&'a mut Worker) -> Work<'a>;
type GetOn = for<'a> fn(&'a mut Worker, usize) -> Work<'a, bool>;

/// The properties of one primitive that the simulator must know.
#[derive(Debug)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// The number of servers that it uses. Each process has a client for each server.
    pub nodes: usize,
    /// Creates the objects that the run needs. Each client calls it after it has connected, in each
    /// of its lives.
    pub prepare: for<'a> fn(&'a Client, usize) -> Work<'a>,
    /// Runs one round of a worker while there are faults.
    pub round: Round,
    /// Does the work that every worker must be able to do with a name once all is healed, and
    /// releases what it acquired. It is repeated until it succeeds.
    pub get_on: GetOn,
    /// Returns the holders in this key at a server time in ms: owners or attempts, as the server
    /// stores them. It is empty for keys of lists. The default reads the owner of a lock.
    pub holders: fn(&KeyDump, u64) -> Vec<String>,
    /// Returns the longest remaining time of an unused key in ms; `None` if it may stay for good.
    pub lives: fn(&str, &Plan) -> Option<u64>,
    /// Creates the checkers of the promises of this kind alone, for so many names.
    pub checkers: fn(usize) -> Vec<Box<dyn Checker>>,
    /// Its planted faults.
    pub mutants: &'static [Mutant],
}

impl Workload {
    /// The defaults of a kind without guards.
    const fn new(
        name: &'static str,
        mutants: &'static [Mutant],
        round: Round,
        get_on: GetOn,
    ) -> Self {
        Self {
            name,
            nodes: 1,
            prepare: |_, _| Box::pin(async {}),
            round,
            get_on,
            holders: |key, now| lock::holder(key, now).into_iter().collect(),
            lives: |_, plan| Some(plan.unused()),
            checkers: |_| Vec::new(),
            mutants,
        }
    }

    /// The defaults of a kind whose acquisitions return these guards.
    const fn of<G: Guard>(name: &'static str, mutants: &'static [Mutant]) -> Self {
        Self::new(
            name,
            mutants,
            |worker| Box::pin(holding::round::<G>(worker)),
            |worker, name| Box::pin(holding::get_on::<G>(worker, name)),
        )
    }

    /// Tells whether its seeds may draw this scenario.
    pub fn takes_part(&self, scenario: &Scenario) -> bool {
        let able = scenario.kinds.is_empty() || scenario.kinds.contains(&self.name);
        self.nodes == 1 && able
    }
}

/// Returns the members of a sorted set; none for another key.
pub(crate) fn members(key: &KeyDump) -> Vec<String> {
    let Contents::SortedSet(members) = &key.contents else {
        return Vec::new();
    };
    let text = |(member, _): &(Vec<u8>, f64)| String::from_utf8_lossy(member).into_owned();
    members.iter().map(text).collect()
}

/// Returns the text of a field of a hash. Other keys have none.
pub(crate) fn field(key: &KeyDump, name: &str) -> Option<String> {
    let Contents::Hash(fields) = &key.contents else {
        return None;
    };
    let (_, value) = fields.iter().find(|(field, _)| field == name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Returns the waiters that a key registers. The members of other sets have no space: they are
/// holds, finished operations, or clients with the time until which they count as alive.
pub(crate) fn waiters(key: &KeyDump) -> Vec<String> {
    let members = members(key).into_iter();
    members.filter(|member| member.contains(' ')).collect()
}

/// Finds a kind by its name.
pub fn find(name: &str) -> Option<Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}
