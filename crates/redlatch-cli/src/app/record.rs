//! The events of the library: on the standard error for `--verbose`, and into a file for
//! `redlatch timeline`.

use std::{env, fs::File, io, path::Path};

use redlatch::{Client, record::Recorder};
use tracing_subscriber::{
    EnvFilter,
    filter::Targets,
    fmt,
    layer::{Layer, SubscriberExt},
    registry,
};

use super::exit::{Failure, no_file};

/// Begins to show events, the more the higher `verbose` is, and to append those of holds to `path`,
/// if there is one. `application` is what others see as the holder.
pub(crate) fn begin(verbose: u8, path: Option<&Path>, application: &str) -> Result<(), Failure> {
    let filter = match env::var("RUST_LOG") {
        Ok(chosen) if verbose == 0 && !chosen.is_empty() => EnvFilter::try_new(chosen)
            .map_err(|error| Failure::usage(format!("RUST_LOG cannot be read: {error}")))?,
        _ => {
            EnvFilter::new(["off", "redlatch=info", "redlatch=debug"][usize::from(verbose.min(2))])
        }
    };
    let recorder = path.map(|path| {
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|error| no_file("recording", path, "written", &error))?;
        let only = Targets::new().with_target(TARGET, tracing::Level::TRACE);
        let recorder = Recorder::new(file).application(application);
        Ok::<_, Failure>(recorder.with_filter(only))
    });
    let shown = fmt::layer().with_writer(io::stderr).with_filter(filter);
    let subscriber = registry().with(recorder.transpose()?).with(shown);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| Failure::own(error.to_string()))
}

/// Records that the command under a hold of `client` got a signal from this process.
pub(crate) fn signalled(client: &Client, signal: &str) {
    tracing::trace!(
        target: TARGET, event = "signalled", owner = %client.id(), cause = signal,
        "the command got a signal"
    );
}

/// The target of the events of the library.
const TARGET: &str = "redlatch";
