//! The engine: a server's data, rules and Lua as a plain synchronous object.
//!
//! Nothing in here reads a clock, draws a random number or iterates in an order that could differ
//! between two runs: the same calls give the same replies. Time is an argument.

mod call;
mod commands;
mod conditions;
mod core;
mod gate;
mod glob;
mod hash;
mod inspect;
mod keyspace;
mod lua;
mod model;
mod number;
mod pubsub;
mod slot;
mod table;
mod time;
mod zset;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redlatch_core::runtime::{Command, Reply};

pub(crate) use self::lua::sha1_hex;
pub use self::{
    conditions::Condition,
    inspect::{Contents, KeyDump, Snapshot},
    model::Model,
    pubsub::Delivery,
    time::ServerTime,
};
use self::{
    core::{Core, Session},
    lua::ScriptHost,
    table::Run,
    time::Clock,
};

/// A Redis-compatible server without a network: commands in, replies and pushes out.
///
/// Inputs: [`open`](Self::open) and [`close`](Self::close) for connections, [`execute`](Self::execute) for commands,
/// [`set_condition`](Self::set_condition) and [`restore`](Self::restore) for trouble. Outputs: the reply of `execute`,
/// then what [`take_deliveries`](Self::take_deliveries) returns, in this order. The caller brings the time, which should
/// not go back unless that is what is being tested.
pub struct Engine {
    /// Shared with `redis.call` and nobody else, so the lock is never contended.
    core: Arc<Mutex<Core>>,
    host: ScriptHost,
    sessions: u64,
}

/// The number of a connection, as `CLIENT ID` tells it. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) u64);

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// All commands but subscriptions.
    Command,
    /// Subscriptions and `PING`.
    PubSub,
}

impl Engine {
    /// Starts an empty server that takes after `model` at its time `now`.
    pub fn new(model: Model, now: ServerTime) -> Self {
        let core = Arc::new(Mutex::new(Core::new(model, now)));
        let host = ScriptHost::new(Arc::clone(&core), model);
        Self {
            core,
            host,
            sessions: 0,
        }
    }

    /// Opens a connection.
    pub fn open(&mut self, kind: SessionKind) -> SessionId {
        self.sessions += 1;
        let id = SessionId(self.sessions);
        let session = Session {
            name: None,
            subscribes: kind == SessionKind::PubSub,
        };
        self.core().sessions.insert(id, session);
        id
    }

    /// Names a connection, as `CLIENT SETNAME` does.
    pub fn set_name(&mut self, session: SessionId, name: &str) {
        if let Some(session) = self.core().sessions.get_mut(&session) {
            session.name = Some(name.to_owned());
        }
    }

    /// Changes what a connection may do, as `SUBSCRIBE` and the last `UNSUBSCRIBE` do over RESP2.
    pub fn turn(&mut self, session: SessionId, kind: SessionKind) {
        if let Some(session) = self.core().sessions.get_mut(&session) {
            session.subscribes = kind == SessionKind::PubSub;
        }
    }

    /// Closes a connection: its subscriptions end, what was on its way to it is lost.
    ///
    /// Commands that come in its name afterwards still run, as those do that a real server finds in
    /// the socket of a client that has gone.
    pub fn close(&mut self, session: SessionId) {
        let mut core = self.core();
        core.sessions.remove(&session);
        core.pubsub.close(session);
    }

    /// Runs one command at the server's time `now`.
    ///
    /// # Errors
    ///
    /// What a server answers with an error is an error here, text for text where texts are stable.
    pub fn execute(&mut self, session: SessionId, command: &Command, now: ServerTime) -> Reply {
        let args: Vec<_> = command.args().collect();
        let mut core = self.core();
        core.data.sweep(now.millis());
        let spec = gate::admit(&core, session, &args)?;
        *core.counts.entry(spec.name).or_default() += 1;
        match spec.run {
            Run::Plain(run) => core.execute(session, &args, now, run),
            Run::Script(run) => {
                drop(core);
                run(self, session, &args, Clock::at(now))
            }
        }
    }

    /// Takes the pushes made since the last call, in order.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.core().pubsub.take()
    }

    /// Sets or ends a state in which the server refuses commands.
    pub fn set_condition(&mut self, condition: Condition, on: bool) {
        self.core().conditions.set(condition, on);
    }

    /// Sets how many replicas acknowledge what they are sent, which is what `WAIT` answers. None by
    /// default.
    pub fn set_replicas(&mut self, replicas: u32) {
        self.core().replicas = replicas;
    }

    /// Forgets all scripts.
    pub fn flush_scripts(&mut self) {
        self.host.flush();
    }

    /// Sets what each command of a script adds to the time the script sees, if time moves in
    /// scripts. 1 µs by default.
    pub fn set_script_step(&mut self, step: Duration) {
        self.core().script_step = step;
    }

    /// Puts the data of `snapshot` in the place of what is there. Connections and scripts stay.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.core().data = snapshot.data();
    }

    /// Starts again as a new process with the data of `snapshot`: no connections, no scripts, no
    /// conditions, no counts.
    pub fn restart(&mut self, snapshot: &Snapshot, now: ServerTime) {
        self.host.flush();
        let mut core = self.core();
        let (model, script_step) = (core.model, core.script_step);
        *core = Core {
            data: snapshot.data(),
            script_step,
            ..Core::new(model, now)
        };
    }

    /// Becomes what [`new`](Self::new) makes, at less cost: scripts that were compiled need not be again.
    /// Nothing else of what was can be seen.
    pub fn start_over(&mut self, now: ServerTime) {
        self.host.flush();
        self.sessions = 0;
        let mut core = self.core();
        *core = Core::new(core.model, now);
    }

    /// Returns a copy of all data.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.core().data)
    }

    /// Returns how often each command came from outside; those of scripts do not count.
    pub fn command_counts(&self) -> BTreeMap<&'static str, u64> {
        self.core().counts.clone()
    }

    /// Returns the server this engine takes after.
    pub fn model(&self) -> Model {
        self.core().model
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// Locks the state. A panic in a handler leaves it whole enough for the next test to say something
/// sensible.
fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}
