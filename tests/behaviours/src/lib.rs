//! What every server has to do, embedded or real, alone or one of several: each behaviour is
//! written once, and each test binary runs all of them on the servers that it has.
//!
//! A behaviour is an `async fn(&Backend)`, or `async fn(&Fleet)` where it needs several servers
//! that do not know of each other. A module names its behaviours with `behaviours!` or
//! `fleet_behaviours!`, and [`all!`] names the modules. The behaviours are compiled here and once:
//! a binary calls them as boxed futures.

// Behaviours say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

/// Exports the behaviours of a module of this crate: boxed, and as a list, a macro of the given
/// name that passes them to the macro `on_backends!` of the crate that calls it.
macro_rules! behaviours {
    ($($module:ident)::+ as $list:ident: $($behaviour:ident),+ $(,)?) => {
        /// The behaviours of this module.
        pub mod boxed {
            use futures_util::future::LocalBoxFuture;
            use redlatch_tests::backend::Backend;

            $(pub fn $behaviour(backend: &Backend) -> LocalBoxFuture<'_, ()> {
                Box::pin(super::$behaviour(backend))
            })+
        }

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $list {
            () => {
                on_backends! { [$crate::$($module)::+::boxed] $($behaviour),+ }
            };
        }
    };
}

/// Does the same for behaviours of a fleet of so many servers, which go to the macro `on_fleets!`.
macro_rules! fleet_behaviours {
    ($($module:ident)::+ as $list:ident, $count:literal: $($behaviour:ident),+ $(,)?) => {
        /// The behaviours of this module.
        pub mod boxed {
            use futures_util::future::LocalBoxFuture;

            use crate::multi::Fleet;

            $(pub fn $behaviour(fleet: &Fleet) -> LocalBoxFuture<'_, ()> {
                Box::pin(super::$behaviour(fleet))
            })+
        }

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $list {
            () => {
                on_fleets! { $count [$crate::$($module)::+::boxed] $($behaviour),+ }
            };
        }
    };
}

pub mod election;
pub mod fair;
pub mod fence;
pub mod latch;
pub mod lock;
pub mod merging;
pub mod multi;
pub mod once;
pub mod permits;
pub mod releases;
pub mod rwlock;
pub mod semaphore;

use futures_util::future::LocalBoxFuture;
use redlatch_tests::backend::Backend;

/// A behaviour of one backend.
pub type Behaviour = for<'a> fn(&'a Backend) -> LocalBoxFuture<'a, ()>;

/// A behaviour of several servers that do not know of each other.
pub type FleetBehaviour = for<'a> fn(&'a multi::Fleet) -> LocalBoxFuture<'a, ()>;

/// Makes a module for each module with behaviours, and passes its behaviours to the macros
/// `on_backends!` and `on_fleets!`, which the caller defines.
#[macro_export]
macro_rules! all {
    () => {
        mod election {
            mod failing {
                $crate::election_failing!();
            }
            mod leading {
                $crate::election_leading!();
            }
            mod observing {
                $crate::election_observing!();
            }
            mod tasks {
                $crate::election_tasks!();
            }
            mod wrong_input {
                $crate::election_wrong_input!();
            }
        }
        mod fair {
            mod dead {
                $crate::fair_dead!();
            }
            mod load {
                $crate::fair_load!();
            }
            mod order {
                $crate::fair_order!();
            }
            mod surface {
                $crate::fair_surface!();
            }
        }
        mod fence {
            mod behaviour {
                $crate::fence_behaviour!();
            }
            mod wrong_input {
                $crate::fence_wrong_input!();
            }
        }
        mod latch {
            mod behaviour {
                $crate::latch_behaviour!();
            }
            mod waiting {
                $crate::latch_waiting!();
            }
            mod wrong_input {
                $crate::latch_wrong_input!();
            }
        }
        mod lock {
            mod behaviour {
                $crate::lock_behaviour!();
            }
            mod loss {
                $crate::lock_loss!();
            }
            mod waiting {
                $crate::lock_waiting!();
            }
            mod wrong_input {
                $crate::lock_wrong_input!();
            }
        }
        mod merging {
            $crate::merging!();
        }
        mod multi {
            mod mixes {
                $crate::multi_mixes!();
            }
            mod multi_lock {
                $crate::multi_multi_lock!();
            }
            mod red_lock {
                $crate::multi_red_lock!();
            }
            mod striped {
                $crate::multi_striped!();
            }
        }
        mod once {
            mod behaviour {
                $crate::once_behaviour!();
            }
            mod serve {
                $crate::once_serve!();
            }
            mod wrong_input {
                $crate::once_wrong_input!();
            }
        }
        mod permits {
            mod behaviour {
                $crate::permits_behaviour!();
            }
            mod many {
                $crate::permits_many!();
            }
        }
        mod releases {
            $crate::releases!();
        }
        mod rwlock {
            mod behaviour {
                $crate::rwlock_behaviour!();
            }
            mod crowd {
                $crate::rwlock_crowd!();
            }
            mod fairness {
                $crate::rwlock_fairness!();
            }
            mod upgrade {
                $crate::rwlock_upgrade!();
            }
        }
        mod semaphore {
            mod behaviour {
                $crate::semaphore_behaviour!();
            }
            mod waiting {
                $crate::semaphore_waiting!();
            }
            mod wrong_input {
                $crate::semaphore_wrong_input!();
            }
        }
    };
}
