//! A recorder of holds: who held what and when, for `redlatch timeline`.

use std::{
    fmt,
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    layer::{Context, Layer},
    registry::LookupSpan,
};

use crate::base::sync::{Mutex, lock};

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

    fn write(&self, event: &str, hold: Option<&HoldFields>, cause: Option<&str>) {
        let mut line = Map::new();
        line.insert("v".to_owned(), VERSION.into());
        line.insert("at_ms".to_owned(), (self.clock)().into());
        line.insert("event".to_owned(), event.into());
        if let Some(hold) = hold {
            line.insert("name".to_owned(), hold.name.as_str().into());
            line.insert("kind".to_owned(), hold.kind.as_str().into());
            line.insert("holder".to_owned(), self.holder(hold));
        }
        if let Some(cause) = cause {
            line.insert("cause".to_owned(), cause.into());
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        let mut out = lock(&self.out);
        // A log that is full is no reason to end a program.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn holder(&self, hold: &HoldFields) -> Value {
        let mut holder = json!({
            "owner": hold.owner,
            "application": self.application,
            "host": self.host,
            "pid": std::process::id(),
        });
        // Without a renewal, the holder may rely on the hold for that long. The JSON of the command
        // has another field for what is left on the server, which is more.
        if let Ok(valid) = hold.remaining_ms.parse::<u64>() {
            holder["valid_ms"] = valid.into();
        }
        // Locks in the layouts of other libraries have none.
        if let Some(token) = hold.token.parse().ok().filter(|token: &u64| *token > 0) {
            holder["token"] = token.into();
        }
        holder
    }
}

fn executable() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    Some(path.file_stem()?.to_string_lossy().into_owned())
}

/// The version of the lines, that of the JSON of the command.
const VERSION: u32 = 1;

#[expect(
    clippy::disallowed_methods,
    reason = "lines of several processes have the time of day in common, and nothing depends on it"
)]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

impl<W> fmt::Debug for Recorder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// The fields of a hold's span, and of the event of its loss.
#[derive(Clone, Debug, Default)]
struct HoldFields {
    event: String,
    kind: String,
    name: String,
    owner: String,
    token: String,
    remaining_ms: String,
    cause: String,
}

impl HoldFields {
    fn set(&mut self, field: &Field, value: String) {
        match field.name() {
            "event" => self.event = value,
            "kind" => self.kind = value,
            "name" => self.name = value,
            "owner" => self.owner = value,
            "token" => self.token = value,
            "remaining_ms" => self.remaining_ms = value,
            "cause" => self.cause = value,
            _ => {}
        }
    }
}

impl Visit for HoldFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
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
        let mut hold = HoldFields::default();
        attributes.record(&mut hold);
        self.write("held", Some(&hold), None);
        // The end of the hold has no time left.
        hold.remaining_ms.clear();
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(hold);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != TARGET {
            return;
        }
        let mut fields = HoldFields::default();
        event.record(&mut fields);
        match fields.event.as_str() {
            "renewed" => {
                if let Some(span) = context.event_span(event)
                    && let Some(hold) = span.extensions().get::<HoldFields>()
                {
                    let hold = HoldFields {
                        remaining_ms: fields.remaining_ms,
                        ..hold.clone()
                    };
                    self.write("renewed", Some(&hold), None);
                }
            }
            "lost" | "signalled" => {
                self.write(&fields.event, Some(&fields), Some(&fields.cause));
            }
            "disconnected" => self.write("unanswered", None, None),
            "connected" => self.write("answered", None, None),
            _ => {}
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && let Some(hold) = span.extensions().get::<HoldFields>()
        {
            self.write("gone", Some(hold), None);
        }
    }
}

/// The target of all spans and events of the family.
const TARGET: &str = "redlatch";
