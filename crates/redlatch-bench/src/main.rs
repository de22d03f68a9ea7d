//! Measures the locks of redlatch in comparison with the limit and with other locks; `cargo xtask
//! bench` starts it.

// A failed measurement ends the run; clocks and tasks are real.
#![allow(clippy::disallowed_methods, clippy::cast_precision_loss)]

mod cli;
mod clock;
mod contender;
mod hold;
mod job;
mod relay;
mod report;
mod rig;
mod rounds;
mod stats;
mod worker;
mod workload;

use std::{process::ExitCode, time::Duration};

use cli::{Part, Plan};
use contender::Failure;

fn main() -> ExitCode {
    match run(&Plan::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match &plan.part {
        Some(Part::Worker { contender, url }) => runtime.block_on(worker::run(contender, url)),
        Some(Part::Relay { server, micros }) => relay::run(*server, Duration::from_micros(*micros)),
        None => runtime.block_on(workload::run(plan)),
    }
}
