//! The command, on systems with process groups.

mod address;
mod args;
mod clock;
mod exit;
mod job;
mod json;
mod out;
mod record;
mod report;
mod session;
mod span;
mod verbs;
mod view;

use std::process::ExitCode;

use clap::Parser;

use self::{
    args::{Args, Verb},
    exit::{Failure, USAGE},
    job::guardian,
};

/// Runs the verb of the command line.
pub(crate) fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            // A closed output is no reason for another exit code.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match args.verb {
        Verb::Guardian => guardian::main(),
        Verb::Launch(args) => job::launch(&args).end(),
        _ => {
            let quiet = args.server.quiet;
            match run(verbs::run(args)) {
                Ok(code) => ExitCode::from(code),
                Err(failure) if failure.is_busy && quiet => ExitCode::from(failure.code),
                Err(failure) => failure.end(),
            }
        }
    }
}

/// Runs `work` to its end.
fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // One thread: a stop of this process then takes effect before the next line of it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::own(format!("no runtime: {error}")))?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}
