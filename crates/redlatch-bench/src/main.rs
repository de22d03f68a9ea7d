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

use std::{env, process::ExitCode};

use cli::Task;
use contender::Failure;

fn main() -> ExitCode {
    let task = match cli::parse(env::args().skip(1)) {
        Ok(task) => task,
        Err(message) => {
            eprintln!("{message}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match task {
        Task::Help => {
            println!("{}", cli::USAGE);
            Ok(())
        }
        Task::Work { contender, url } => runtime.block_on(worker::run(&contender, &url)),
        Task::Relay { server, latency } => relay::run(server, latency),
        Task::Measure(plan) => runtime.block_on(workload::run(&plan)),
    }
}
