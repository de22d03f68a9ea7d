//! `--record`: what happens to the holds of this process, for `redlatch timeline`.

use std::{fs::File, path::Path};

use redlatch::{Client, record::Recorder};
use tracing_subscriber::{
    filter::Targets,
    layer::{Layer, SubscriberExt},
    registry,
};

use super::exit::{Failure, USAGE};

/// Begins to append to `path`, if there is one. `application` is what others see as the holder.
pub(crate) fn begin(path: Option<&Path>, application: &str) -> Result<(), Failure> {
    let Some(path) = path else {
        return Ok(());
    };
    let file = File::options().append(true).create(true).open(path);
    let file = file.map_err(|error| {
        let shown = path.display();
        Failure::new(
            USAGE,
            format!("the recording {shown} cannot be written: {error}"),
        )
    })?;
    let only = Targets::new().with_target(TARGET, tracing::Level::TRACE);
    let recorder = Recorder::new(file).application(application);
    let subscriber = registry().with(recorder.with_filter(only));
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
