//! What the examples share: a server to talk to, and a `main` that cleans up after itself.

// Examples run on real clocks and tasks; the runtime that the lint points to is for redlatch
// itself.
#![allow(clippy::disallowed_methods)]

mod process;
mod scratch;
pub mod server;

use std::{env, error::Error, fs::File, io, path::Path, process::ExitCode};

use redlatch::record::Recorder;
use tracing_subscriber::{
    filter::Targets,
    layer::{Layer, SubscriberExt},
    util::SubscriberInitExt,
};

pub use scratch::Scratch;
pub use server::Server;

/// What an example's functions return: any error will do, since all it is for is to be printed.
pub type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs an example and prints its error, if it has one, with all its causes.
///
/// Ctrl-C or a request to terminate drops it, and with it the server that it started. With
/// `REDLATCH_RECORD=FILE` the holds of the example are recorded for `redlatch timeline`.
pub async fn run(example: impl Future<Output = Result>) -> ExitCode {
    if let Some(file) = env::var_os("REDLATCH_RECORD")
        && let Err(error) = record(Path::new(&file))
    {
        eprintln!("error: the recording cannot be written: {error}");
        return ExitCode::FAILURE;
    }
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

/// Records the holds of this process in a file.
fn record(file: &Path) -> io::Result<()> {
    let only = Targets::new().with_target("redlatch", tracing::Level::TRACE);
    // An example may have several processes, which append whole lines.
    let file = File::options().append(true).create(true).open(file)?;
    let recorder = Recorder::new(file).with_filter(only);
    tracing_subscriber::registry().with(recorder).init();
    Ok(())
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
