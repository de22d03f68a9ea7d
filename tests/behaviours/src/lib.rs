//! What every server has to do, embedded or real, alone or one of several. Each behaviour is
//! written once; the test program `behaviours` runs them on the servers that there are.
//!
//! A behaviour is an `async fn(&Backend)`, or `async fn(&Fleet)` where it needs several servers
//! that do not know of each other. A module lists its behaviours with `behaviours!` or
//! `fleet_behaviours!`, and [`all`] lists the modules.

// Behaviours say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use futures_util::future::LocalBoxFuture;
use redlatch_tests::backend::Backend;

/// Lists the behaviours of a module, each below its [`Place`].
macro_rules! behaviours {
    ($($place:ident: $($behaviour:ident),+);+ $(;)?) => {
        pub(crate) const CASES: &[crate::Case] = &[$($(crate::Case {
            module: module_path!(),
            function: stringify!($behaviour),
            run: crate::Run::Backend(crate::Place::$place, |backend| {
                Box::pin($behaviour(backend))
            }),
        }),+),+];
    };
}

/// Lists the behaviours of a module for a fleet of so many servers.
macro_rules! fleet_behaviours {
    ($count:literal; $($behaviour:ident),+ $(,)?) => {
        pub(crate) const CASES: &[crate::Case] = &[$(crate::Case {
            module: module_path!(),
            function: stringify!($behaviour),
            run: crate::Run::Fleet($count, |fleet| Box::pin($behaviour(fleet))),
        }),+];
    };
}

pub mod compat;
pub mod election;
pub mod fair;
pub mod fence;
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
    let modules = [
        compat::redisson::CASES,
        compat::set_nx::CASES,
        election::failing::CASES,
        election::leading::CASES,
        election::observing::CASES,
        election::tasks::CASES,
        fair::dead::CASES,
        fair::load::CASES,
        fair::order::CASES,
        fence::behaviour::CASES,
        latch::behaviour::CASES,
        latch::waiting::CASES,
        limit::behaviour::CASES,
        limit::waiting::CASES,
        lock::behaviour::CASES,
        lock::loss::CASES,
        lock::waiting::CASES,
        merging::CASES,
        multi::mixes::CASES,
        multi::multi_lock::CASES,
        multi::red_lock::CASES,
        multi::striped::CASES,
        notes::CASES,
        objects::CASES,
        once::behaviour::CASES,
        once::serve::CASES,
        permits::behaviour::CASES,
        releases::CASES,
        rwlock::behaviour::CASES,
        rwlock::crowd::CASES,
        rwlock::fairness::CASES,
        rwlock::upgrade::CASES,
        semaphore::behaviour::CASES,
        semaphore::waiting::CASES,
    ];
    modules.into_iter().flatten().copied()
}
