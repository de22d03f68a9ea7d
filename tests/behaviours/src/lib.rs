//! What every server has to do, embedded or real, alone or one of several. Each behaviour is
//! written once; the test program `behaviours` runs them on the servers that there are.
//!
//! A behaviour is an `async fn` of what it needs: the `&Backend`, or the `&Fleet` of several
//! servers that do not know of each other, clients of its own, objects. The module `given` makes
//! them, and checks in the end that nothing is left. A module lists its behaviours with
//! `behaviours!` or `fleet_behaviours!`, and [`all`] lists the modules.

// Behaviours say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use futures_util::future::LocalBoxFuture;
use redlatch_tests::backend::Backend;

/// Lists the behaviours of a module, each below its [`Place`]. After each, the function `left`
/// checks what it has left.
macro_rules! behaviours {
    (left $left:path; $($place:ident: $($behaviour:ident),+);+ $(;)?) => {
        pub(crate) const CASES: &[crate::Case] = &[$($(crate::Case {
            module: module_path!(),
            function: stringify!($behaviour),
            run: crate::Run::Backend(crate::Place::$place, |backend| {
                Box::pin(async move {
                    let ground = crate::given::Behaves::run($behaviour, backend).await;
                    $left(&ground).await;
                })
            }),
        }),+),+];
    };
    ($($listed:tt)+) => {
        behaviours! { left crate::given::nothing; $($listed)+ }
    };
}

/// Lists the behaviours of a module for a fleet of so many servers.
macro_rules! fleet_behaviours {
    ($count:literal; $($behaviour:ident),+ $(,)?) => {
        pub(crate) const CASES: &[crate::Case] = &[$(crate::Case {
            module: module_path!(),
            function: stringify!($behaviour),
            run: crate::Run::Fleet($count, |fleet| {
                Box::pin(async move {
                    crate::given::Behaves::run($behaviour, fleet).await;
                })
            }),
        }),+];
    };
}

/// Lists the behaviours of modules, by their parents.
macro_rules! cases {
    ($($parent:ident: $($module:ident),+;)+) => {
        [$($($parent::$module::CASES),+),+]
    };
}

pub mod compat;
pub mod election;
mod every_kind;
pub mod fair;
pub mod fence;
mod given;
pub mod holds;
pub mod latch;
pub mod limit;
pub mod lock;
pub mod merging;
pub mod multi;
pub mod notes;
pub mod objects;
pub mod once;
pub mod permits;
pub mod prelude;
pub mod releases;
pub mod rwlock;
pub mod semaphore;

/// A behaviour of one backend.
pub type Behaviour = for<'a> fn(&'a Backend) -> LocalBoxFuture<'a, ()>;

/// A behaviour of several servers that do not know of each other.
pub type FleetBehaviour = for<'a> fn(&'a multi::Fleet) -> LocalBoxFuture<'a, ()>;

/// The backends on which a behaviour runs for each change. By night every behaviour runs on every
/// backend. Scripts do not know where they run, so most behaviours need no group of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On the embedded server, and on each server alone.
    Single,
    /// Also on a cluster: what depends on slots, sharded channels, or calls about several names.
    Cluster,
    /// Also on sentinels: what connections, messages and leases do for each kind.
    Everywhere,
}

/// How a behaviour is run.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// On one backend.
    Backend(Place, Behaviour),
    /// On so many servers.
    Fleet(usize, FleetBehaviour),
}

/// One behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    module: &'static str,
    function: &'static str,
    /// What it does, and where.
    pub run: Run,
}

impl Case {
    /// Returns the name, such as `lock::loss::run_ends_with_the_hold`.
    pub fn name(&self) -> String {
        let module = self.module.trim_start_matches("redlatch_behaviours::");
        format!("{module}::{}", self.function)
    }

    /// Returns where the behaviour runs. A fleet is no group of servers.
    pub fn place(&self) -> Place {
        match self.run {
            Run::Backend(place, _) => place,
            Run::Fleet(..) => Place::Single,
        }
    }

    /// Tells whether the behaviour needs several servers that do not know of each other.
    pub fn needs_fleet(&self) -> bool {
        matches!(self.run, Run::Fleet(..))
    }
}

/// Returns all behaviours.
pub fn all() -> impl Iterator<Item = Case> {
    let modules = cases! {
        compat: redisson, set_nx;
        election: failing, leading, observing, tasks;
        fair: dead, load, order;
        fence: behaviour;
        latch: behaviour, waiting;
        limit: behaviour, waiting;
        lock: behaviour, loss, waiting;
        multi: mixes, multi_lock, red_lock, striped;
        once: behaviour, serve;
        permits: behaviour;
        rwlock: behaviour, crowd, fairness, upgrade;
        semaphore: behaviour, waiting;
        crate: every_kind, merging, notes, objects, releases;
    };
    modules.into_iter().flatten().copied()
}
