//! A deterministic simulator that tries to break the locks of redlatch.
//!
//! The production links, router, script sender, hub, acquire loop, watchdog, releaser and guards
//! run unchanged on a seeded single-threaded executor, over the embedded engine and a network that
//! fails. The seed determines the whole run. `docs/contributing/testing.md` describes what the
//! simulator shows and what it cannot show, [`faults`] and [`scenarios`] list what goes wrong,
//! [`watch`] contains the checkers, and [`workload`] explains how to add a primitive.

pub mod batch;
pub mod cli;
pub mod exec;
pub mod faults;
mod lent;
pub mod mutants;
pub mod names;
pub mod net;
pub mod plan;
#[path = "../../../tests/histories/record.rs"]
pub mod record;
pub mod rng;
pub mod runtime;
pub mod scenarios;
pub mod scripts;
pub mod server;
pub mod small;
pub mod watch;
pub mod workload;
pub mod world;

pub use faults::Fault;
pub use mutants::Mutant;
pub use scenarios::Scenario;
pub use world::{Options, Report, run};
