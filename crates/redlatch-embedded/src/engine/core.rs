//! The state that commands read and change: data, sessions, conditions and the running script.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redlatch_core::runtime::{Command, ServerError, Value};

use super::{
    Condition, Model, ServerTime, SessionId,
    call::Call,
    gate,
    keyspace::Keyspace,
    pubsub::PubSub,
    table::{self, Run},
    time::Clock,
};

/// The state of an engine without its Lua.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) model: Model,
    pub(super) data: Keyspace,
    /// The conditions that are set now.
    pub(super) conditions: BTreeSet<Condition>,
    pub(super) config: BTreeMap<&'static str, String>,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    pub(super) pubsub: PubSub,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) script: Option<ScriptRun>,
    pub(super) started: ServerTime,
    pub(super) replicas: u32,
    /// The number of commands whose effects replicas get.
    pub(super) effects: u64,
    /// The time that each command of a script adds to the clock that the script sees.
    pub(super) script_step: Duration,
}

impl Core {
    pub(super) fn new(model: Model, started: ServerTime) -> Self {
        Self {
            model,
            data: Keyspace::default(),
            conditions: BTreeSet::new(),
            config: super::commands::default_config(),
            sessions: BTreeMap::new(),
            pubsub: PubSub::default(),
            counts: BTreeMap::new(),
            script: None,
            started,
            replicas: 0,
            effects: 0,
            script_step: Duration::from_micros(1),
        }
    }

    /// Tells whether a condition is set.
    pub(super) fn is(&self, condition: Condition) -> bool {
        self.conditions.contains(&condition)
    }

    /// Runs a command of the running script.
    pub(super) fn execute_in_script(&mut self, command: &Command) -> Result<Value, Refused> {
        let args: Vec<_> = command.args().collect();
        let spec = gate::admit_in_script(self, &args).map_err(Refused::ByGate)?;
        let Some(script) = &mut self.script else {
            return Err(Refused::ByGate(gate::no_script()));
        };
        // This command sees the time before the step; the next one sees the time after it.
        let (session, clock) = (script.session, script.clock);
        if self.model.time_moves_in_scripts() {
            script.clock.now = clock.now.after(self.script_step);
        }
        let Run::Plain(handler) = spec.run else {
            return Err(Refused::ByGate(table::not_from_scripts(self.model)));
        };
        let call = Call {
            core: self,
            session,
            spec,
            args: &args,
            clock,
        };
        call.run(handler).map_err(Refused::ByCommand)
    }
}

/// The stage that refused a command of a script. Redis 6.2 words the two errors differently.
#[derive(Debug)]
pub(super) enum Refused {
    /// The command was not run.
    ByGate(ServerError),
    /// The command was run and failed.
    ByCommand(ServerError),
}

/// The state of a connection in the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) name: Option<String>,
    /// Whether the session is for subscriptions, and may send nothing else but `PING`.
    pub(super) subscribes: bool,
}

/// The running script.
#[derive(Debug)]
pub(super) struct ScriptRun {
    pub(super) sha: String,
    pub(super) session: SessionId,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) clock: Clock,
    /// Whether a write command was admitted. From then on a full server refuses no command of the
    /// script.
    pub(super) wrote: bool,
    /// Whether the server was full when the script began.
    pub(super) was_full: bool,
    /// The state of `math.random`, which is the same at the start of every script.
    pub(super) random: u64,
}
