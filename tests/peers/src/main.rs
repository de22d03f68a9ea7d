//! Workers of the Rust client and of the Python client compete for one lock on one server. Some are
//! suspended for longer than their lease, some are killed. The history of their holds is checked:
//! no two believe at once, tokens rise, and each language hands over to the other by a message.
//!
//! `redlatch-peers --python PATH [--rounds N] [--server PATH]`. Each of the two kinds of locks is
//! held N times.

// A tool of the tests: what cannot be started ends it, and processes need real clocks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

#[cfg(unix)]
mod history;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod worker;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == "worker") {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let ended = runtime.block_on(worker::work(&args[1..]));
        eprintln!("the worker has ended: {ended:?}");
        return std::process::ExitCode::FAILURE;
    }
    match run::Options::parse(&args).and_then(|options| run::all(&options)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("redlatch-peers: {message}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(unix))]
fn main() {
    eprintln!("redlatch-peers suspends processes, which needs Unix");
    std::process::exit(1);
}
