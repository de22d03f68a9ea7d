//! What the tests share: a shell for an engine, replies as text.

use std::time::Duration;

use redlatch_core::runtime::{Command, Reply, Value};
use redlatch_embedded::engine::{Engine, Model, ServerTime, SessionId, SessionKind};

/// An engine with one session and a clock that the test moves.
pub(crate) struct Shell {
    pub(crate) engine: Engine,
    pub(crate) session: SessionId,
    pub(crate) now: ServerTime,
}

impl Shell {
    pub(crate) fn new(model: Model) -> Self {
        let now = ServerTime::from_millis(1_700_000_000_000);
        let mut engine = Engine::new(model, now);
        let session = engine.open(SessionKind::Command);
        Self {
            engine,
            session,
            now,
        }
    }

    /// Runs a command written with spaces between its arguments and tells the reply as text.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let args: Vec<_> = line.split(' ').collect();
        self.run_args(&args)
    }

    pub(crate) fn run_args(&mut self, args: &[&str]) -> String {
        show(&self.engine.execute(self.session, &command(args), self.now))
    }

    /// Runs a script with keys and without further arguments.
    pub(crate) fn eval(&mut self, source: &str, keys: &[&str]) -> String {
        let count = keys.len().to_string();
        let mut args = vec!["EVAL", source, &count];
        args.extend(keys);
        self.run_args(&args)
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
    }
}

pub(crate) fn command(args: &[&str]) -> Command {
    let command = Command::with_capacity(args.len(), 64);
    args.iter().fold(command, Command::arg)
}

/// Writes a reply as `redis-cli --no-raw` would on one line, about.
pub(crate) fn show(reply: &Reply) -> String {
    match reply {
        Ok(value) => show_value(value),
        Err(error) => format!("!{}", error.to_string().trim_end()),
    }
}

fn show_value(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Bulk(bytes) => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        Value::Status(text) => text.clone(),
        Value::Error(error) => format!("!{error}"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(show_value).collect();
            format!("[{}]", items.join(" "))
        }
    }
}
