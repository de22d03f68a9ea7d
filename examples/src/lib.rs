//! What the examples share: a server to talk to, and a `main` that cleans up after itself.

pub mod http;
mod process;
mod scratch;
pub mod server;

use std::{
    env,
    error::Error,
    fs::File,
    io,
    path::Path,
    process::{ExitCode, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use redlatch::record::Recorder;
use tokio::process::Command;
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

/// Returns the command that runs this example as another process, with this role as the first
/// argument. The process is killed when it is dropped.
pub fn role(role: &str) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(role).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// Returns the µs since 1970. The processes of an example share one machine and so one clock.
pub fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
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
