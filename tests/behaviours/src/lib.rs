//! What every server has to do, embedded or real, alone or one of several: each behaviour is
//! written once, and each test binary runs all of them on the servers that it has.
//!
//! A behaviour is an `async fn(&Backend)`, or `async fn(&Fleet)` where it needs several servers
//! that do not know of each other. A module names its behaviours with `behaviours!` or
//! `fleet_behaviours!`, a folder names its modules with `modules!`, and `kinds!` names the folders.
//! The behaviours are compiled here and once: a binary calls them as boxed futures.

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

/// Exports the behaviours of a folder: a macro of its name, which passes on those of its modules.
macro_rules! modules {
    ($folder:ident: $($module:ident as $list:ident),+ $(,)?) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $folder {
            () => {
                $(mod $module {
                    $crate::$list!();
                })+
            };
        }
    };
}

pub mod compat;
pub mod election;
pub mod fair;
pub mod fence;
pub mod latch;
pub mod lock;
pub mod merging;
pub mod multi;
pub mod notes;
pub mod objects;
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

/// Exports `all!`, which calls the macro of each of these modules.
macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// Makes a module for each module with behaviours, and passes its behaviours to the macros
        /// `on_backends!` and `on_fleets!`, which the caller defines.
        #[macro_export]
        macro_rules! all {
            () => {
                $(mod $kind {
                    $crate::$kind!();
                })+
            };
        }
    };
}

kinds! {
    compat,
    election,
    fair,
    fence,
    latch,
    lock,
    merging,
    multi,
    notes,
    objects,
    once,
    permits,
    releases,
    rwlock,
    semaphore,
}
