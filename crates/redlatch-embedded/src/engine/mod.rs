//! The engine: data, rules and Lua of a server as a plain synchronous object.
//!
//! The engine reads no clock, draws no random number and never iterates in an order that could
//! differ between two runs. The same calls give the same replies. Time is an argument.

mod call;
mod commands;
mod core;
mod gate;
mod hash;
mod inspect;
mod keyspace;
mod lua;
mod model;
mod number;
mod pubsub;
mod table;
mod time;
mod zset;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use redlatch_core::runtime::Purpose as SessionKind;
use redlatch_core::runtime::{Command, Reply};

pub(crate) use self::lua::sha1_hex;
use self::{
    call::Call,
    core::{Core, Session},
    lua::ScriptHost,
    pubsub::ChannelKind,
    table::Run,
    time::Clock,
};
pub use self::{
    gate::Condition,
    inspect::{Contents, KeyDump, Snapshot},
    model::Model,
    pubsub::Delivery,
    time::ServerTime,
};

/// A Redis-compatible server without a network: commands are its input, replies and pushes its
/// output.
///
/// [`open`](Self::open) and [`close`](Self::close) manage connections, and
/// [`execute`](Self::execute) runs a command. [`set_condition`](Self::set_condition) and
/// [`restore`](Self::restore) cause trouble.
///
/// The reply of `execute` comes first, and then the pushes from
/// [`take_deliveries`](Self::take_deliveries), in this order. The caller passes the time, which
/// should not go back unless a test wants that.
pub struct Engine {
    /// Only `redis.call` shares the state, so the lock is never contended.
    core: Arc<Mutex<Core>>,
    host: ScriptHost,
    sessions: u64,
}

/// The number of a connection, as `CLIENT ID` reports it. A number is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) u64);

impl Engine {
    /// Starts an empty server that behaves as `model`, at its time `now`.
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

    /// Changes the purpose of a connection, as `SUBSCRIBE` and the last `UNSUBSCRIBE` do over
    /// RESP2.
    pub fn turn(&mut self, session: SessionId, kind: SessionKind) {
        if let Some(session) = self.core().sessions.get_mut(&session) {
            session.subscribes = kind == SessionKind::PubSub;
        }
    }

    /// Closes a connection: its subscriptions end, and pushes that were not taken are lost.
    ///
    /// Later commands of this connection still run. On a real server, commands that wait in the
    /// socket of a vanished client run in the same way.
    pub fn close(&mut self, session: SessionId) {
        let mut core = self.core();
        core.sessions.remove(&session);
        core.pubsub.close(session);
    }

    /// Runs one command at the server's time `now`.
    ///
    /// # Errors
    ///
    /// Returns the error reply of a server, with the same text where texts are stable.
    pub fn execute(&mut self, session: SessionId, command: &Command, now: ServerTime) -> Reply {
        let (args, clock) = (command.args().collect::<Vec<_>>(), Clock::at(now));
        let mut core = self.core();
        core.data.sweep(now.millis());
        let spec = gate::admit(&core, session, &args)?;
        *core.counts.entry(spec.name).or_default() += 1;
        match spec.run {
            Run::Plain(handler) => {
                let call = Call {
                    core: &mut core,
                    session,
                    spec,
                    args: &args,
                    clock,
                };
                call.run(handler)
            }
            Run::Script(handler) => {
                drop(core);
                handler(self, (session, clock), &args)
            }
        }
    }

    /// Takes the pushes made since the last call, in order.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.core().pubsub.take()
    }

    /// Keeps the messages of `PUBLISH`, which a cluster sends to its other nodes.
    pub fn keep_messages(&mut self) {
        self.core().pubsub.published = Some(Vec::new());
    }

    /// Takes the messages that were published since the last call: channels and texts.
    pub fn take_messages(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut core = self.core();
        let published = core.pubsub.published.as_mut();
        published.map(std::mem::take).unwrap_or_default()
    }

    /// Sends a message of another node to the subscribers of a channel.
    pub fn hear(&mut self, channel: &[u8], payload: &[u8]) {
        let pubsub = &mut self.core().pubsub;
        pubsub.send(ChannelKind::Global, channel, payload);
    }

    /// Sets or clears a condition under which the server refuses commands.
    pub fn set_condition(&mut self, condition: Condition, on: bool) {
        let mut core = self.core();
        match on {
            true => core.conditions.insert(condition),
            false => core.conditions.remove(&condition),
        };
    }

    /// Sets the number of replicas that acknowledge writes, which `WAIT` returns. The default is 0.
    pub fn set_replicas(&mut self, replicas: u32) {
        self.core().replicas = replicas;
    }

    /// Removes all scripts.
    pub fn flush_scripts(&mut self) {
        self.host.flush();
    }

    /// Sets the time that each command of a script adds to the clock that the script sees, if time
    /// moves in scripts. The default is 1 µs.
    pub fn set_script_step(&mut self, step: Duration) {
        self.core().script_step = step;
    }

    /// Replaces the data by those of `snapshot`. Connections and scripts stay.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.core().data = snapshot.0.clone();
    }

    /// Restarts as a new process with the data of `snapshot`. Connections, scripts, conditions and
    /// counts are gone.
    pub fn restart(&mut self, snapshot: &Snapshot, now: ServerTime) {
        self.host.flush();
        let mut core = self.core();
        let (model, script_step, effects) = (core.model, core.script_step, core.effects);
        let pubsub = core.pubsub.restarted();
        *core = Core {
            data: snapshot.0.clone(),
            pubsub,
            script_step,
            effects,
            ..Core::new(model, now)
        };
    }

    /// Resets to the state that [`new`](Self::new) creates, at a lower cost, because compiled
    /// scripts are kept. Nothing else of the former state is visible.
    pub fn start_over(&mut self, now: ServerTime) {
        self.host.flush();
        self.sessions = 0;
        let mut core = self.core();
        *core = Core::new(core.model, now);
    }

    /// Returns a copy of all data.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.core().data.clone())
    }

    /// Returns how many calls of each command came from clients. Commands inside scripts do not
    /// count.
    pub fn command_counts(&self) -> BTreeMap<&'static str, u64> {
        self.core().counts.clone()
    }

    /// Returns how many commands have had effects that a server sends to its replicas. A restart
    /// keeps the number, as a server keeps its offset of replication.
    pub fn effects(&self) -> u64 {
        self.core().effects
    }

    /// Returns the server whose behaviour this engine has.
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

/// Locks the state. A panic in a handler leaves the state usable, so the lock ignores poisoning and
/// the next test reports a sensible error.
fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}
