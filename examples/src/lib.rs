//! What the examples share: a server to talk to, and a `main` that cleans up after itself.

// Examples run on real clocks and tasks; the runtime that the lint points to is for redlatch
// itself.
#![allow(clippy::disallowed_methods)]

mod process;
mod scratch;
pub mod server;

use std::{error::Error, process::ExitCode};

pub use scratch::Scratch;
pub use server::Server;

/// What an example's functions return: any error will do, since all it is for is to be printed.
pub type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs an example and prints its error, if it has one, with all its causes.
///
/// Ctrl-C or a request to terminate drops it, and with it the server that it started.
pub async fn run(example: impl Future<Output = Result>) -> ExitCode {
    let outcome = tokio::select! {
        outcome = example => outcome,
        () = interruption() => return ExitCode::from(130),
    };
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}

async fn interruption() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                Some(()) = terminate.recv() => return,
                Ok(()) = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
