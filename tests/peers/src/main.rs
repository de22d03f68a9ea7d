//! Workers of the Rust client and of the Python client compete for one lock on one server. Some are
//! suspended for longer than their lease, some are killed. The history of their holds is checked:
//! no two believe at once, tokens rise, and each language hands over to the other by a message.
//!
//! `redlatch-peers --python PATH [--rounds N] [--server PATH]`. Each of the two kinds of locks is
//! held N times.
//!
//! `redlatch-peers libraries --programs FOLDER --python PATH [--only NAME] [--rounds N]
//! [--processes N]`: locks of other libraries beside `redlatch-compat`. The programs of the
//! libraries are in `libraries`.

// A tool of the tests: what cannot be started ends it, and processes need real clocks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

#[cfg(unix)]
mod history;
#[cfg(unix)]
mod libraries;
#[cfg(unix)]
mod rslock;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod worker;

/// What a part of the program gives, or any error.
#[cfg(unix)]
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let first = args.first().map_or("", String::as_str);
    let result: Outcome = match first {
        "worker" => {
            let ended = runtime.block_on(worker::work(&args[1..]));
            Err(format!("the worker has ended: {ended:?}").into())
        }
        "rslock" => runtime.block_on(rslock::serve(&args[1..])),
        "ours" => runtime.block_on(libraries::ours(&args[1..])),
        "libraries" => libraries::Options::parse(&args[1..], 10_000)
            .and_then(|options| runtime.block_on(libraries::all(&options))),
        _ => libraries::Options::parse(&args, 300)
            .and_then(|options| run::all(&options).map_err(Into::into)),
    };
    match result {
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
