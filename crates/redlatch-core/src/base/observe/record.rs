//! A recorder of holds: who held what and when, for `redlatch timeline`.

use std::{
    collections::BTreeMap,
    fmt,
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    layer::{Context, Layer},
    registry::LookupSpan,
};

use super::executable;
use crate::{
    base::sync::{Mutex, lock},
    protocol::server_clock::whole_millis,
};

/// A layer of `tracing` that writes the holds of this process, their deadlines, renewals, losses
/// and ends, and when the server was not connected: one line of JSON each, as `redlatch ls --watch
/// --json` does. The command `redlatch timeline` draws them.
///
/// The layer needs the target `redlatch` up to the level `TRACE`. A filter of its own keeps these
/// events out of other layers. A line that cannot be written is left out. Writing is done where the
/// event occurs, so give it a buffered or quick writer. Lines of several processes may be put
/// together in any order of processes: `cat a.jsonl b.jsonl | redlatch timeline`.
///
/// ```
/// # use redlatch_core as redlatch;
/// use redlatch::record::Recorder;
/// use tracing_subscriber::{filter::Targets, layer::{Layer, SubscriberExt}, registry};
///
/// # fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir();
/// let file = std::fs::File::create(folder.join("holds.jsonl"))?;
/// let only = Targets::new().with_target("redlatch", tracing::Level::TRACE);
/// let subscriber = registry().with(Recorder::new(file).with_filter(only));
/// # drop(subscriber);
/// # Ok(())
/// # }
/// ```
pub struct Recorder<W> {
    out: Mutex<W>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    application: String,
    host: String,
}

impl<W: Write + Send + 'static> Recorder<W> {
    /// Creates a recorder that writes to `out`. The process is called after its executable.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::record::Recorder;
    /// use tracing_subscriber::layer::SubscriberExt;
    ///
    /// let subscriber = tracing_subscriber::registry().with(Recorder::new(std::io::stderr()));
    /// # drop(subscriber);
    /// ```
    pub fn new(out: W) -> Self {
        Self {
            out: Mutex::new(out),
            clock: Box::new(wall_clock),
            application: executable().unwrap_or_default(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
        }
    }

    /// Sets what the process is called. Without this it is the name of the executable, also if a
    /// client has another name.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::record::Recorder;
    ///
    /// let recorder = Recorder::new(std::io::stderr()).application("checkout");
    /// # drop(recorder);
    /// ```
    #[must_use]
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.application = name.into();
        self
    }

    /// Sets the clock, in milliseconds. Default: that of the system, since 1970.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    fn write(&self, event: &str, hold: Option<&Fields>, cause: Option<&str>) {
        let mut line = json!({ "v": VERSION, "at_ms": (self.clock)(), "event": event });
        if let Some(hold) = hold {
            line["name"] = hold.get("name").into();
            line["kind"] = hold.get("kind").into();
            line["holder"] = self.holder(hold);
        }
        if let Some(cause) = cause {
            line["cause"] = cause.into();
        }
        let mut text = line.to_string();
        text.push('\n');
        let mut out = lock(&self.out);
        // A log that is full is no reason to end a program.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn holder(&self, hold: &Fields) -> Value {
        let mut holder = json!({
            "owner": hold.get("owner"),
            "application": self.application,
            "host": self.host,
            "pid": std::process::id(),
        });
        // Without a renewal, the holder may rely on the hold for that long. The JSON of the command
        // has another field for what is left on the server, which is more.
        if let Ok(valid) = hold.get("remaining_ms").parse::<u64>() {
            holder["valid_ms"] = valid.into();
        }
        // Locks in the layouts of other libraries have none.
        if let Ok(token @ 1..) = hold.get("token").parse::<u64>() {
            holder["token"] = token.into();
        }
        holder
    }
}

/// The version of the lines, that of the JSON of the command.
const VERSION: u32 = 1;

#[expect(
    clippy::disallowed_methods,
    reason = "lines of several processes have the time of day in common, and nothing depends on it"
)]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, whole_millis)
}

impl<W> fmt::Debug for Recorder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// The fields of a hold's span, or of an event.
#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S, W> Layer<S> for Recorder<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if metadata.target() != TARGET || metadata.name() != "hold" {
            return;
        }
        let mut hold = Fields::default();
        attributes.record(&mut hold);
        self.write("held", Some(&hold), None);
        // The end of the hold has no time left.
        hold.0.remove("remaining_ms");
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(hold);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != TARGET {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        match fields.get("event") {
            "renewed" => {
                if let Some(span) = context.event_span(event)
                    && let Some(hold) = span.extensions().get::<Fields>()
                {
                    let mut hold = hold.clone();
                    let remaining = fields.get("remaining_ms").to_owned();
                    hold.0.insert("remaining_ms", remaining);
                    self.write("renewed", Some(&hold), None);
                }
            }
            event @ ("lost" | "signalled") => {
                self.write(event, Some(&fields), Some(fields.get("cause")));
            }
            "disconnected" => self.write("unanswered", None, None),
            "connected" => self.write("answered", None, None),
            _ => {}
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && let Some(hold) = span.extensions().get::<Fields>()
        {
            self.write("gone", Some(hold), None);
        }
    }
}

/// The target of all spans and events of the family.
const TARGET: &str = "redlatch";
