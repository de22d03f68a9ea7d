//! The server: the embedded engine, its clock, and scripts that a mutant may have replaced.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    thread,
};

use redlatch_core::runtime::{Command, Reply};
use redlatch_embedded::{
    Model, ServerTime,
    engine::{Condition, Delivery, Engine, SessionId, SessionKind, Snapshot},
};

use crate::{mutants::Forgery, runtime::Clock};

/// One server with its clock.
#[derive(Debug)]
pub struct Server {
    engine: Lent,
    clock: Clock,
    /// The sum of the clock's steps, in microseconds.
    stepped: i64,
    /// The offset of the active server's clock in microseconds, relative to the slowest of the
    /// servers that may take over.
    ahead: u64,
    /// The number of restarts.
    pub restarts: u64,
    forgery: Option<Forgery>,
}

impl Server {
    /// Starts an empty server.
    pub fn new(model: Model, clock: Clock, ahead: u64, forgery: Option<Forgery>) -> Self {
        let now = ServerTime::from_micros(clock.read(0) + ahead);
        Self {
            engine: Lent::new(model, now),
            clock,
            stepped: 0,
            ahead,
            restarts: 0,
            forgery,
        }
    }

    /// Returns the server's time at the true time `at`.
    pub fn time(&self, at: u64) -> ServerTime {
        let shown = self.clock.read(at) + self.ahead;
        ServerTime::from_micros(shown.saturating_add_signed(self.stepped))
    }

    /// Steps the clock.
    pub fn step_clock(&mut self, micros: i64) {
        self.stepped += micros;
    }

    /// Accepts a connection.
    pub fn open(&mut self, kind: SessionKind) -> SessionId {
        self.engine.open(kind)
    }

    /// Ends a connection.
    pub fn close(&mut self, session: SessionId) {
        self.engine.close(session);
    }

    /// Runs one command.
    pub fn execute(&mut self, session: SessionId, command: &Command, at: u64) -> Reply {
        let time = self.time(at);
        let forged = self
            .forgery
            .as_ref()
            .and_then(|forgery| forgery.forge(command));
        self.engine
            .execute(session, forged.as_ref().unwrap_or(command), time)
    }

    /// Takes the pending pushes.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.engine.take_deliveries()
    }

    /// Removes all scripts.
    pub fn flush_scripts(&mut self) {
        self.engine.flush_scripts();
    }

    /// Returns a copy of all data.
    pub fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    /// Restarts with the data of `snapshot`.
    pub fn restart(&mut self, snapshot: &Snapshot, at: u64) {
        let time = self.time(at);
        self.engine.restart(snapshot, time);
        self.restarts += 1;
    }

    /// Replaces the server by another with the data of `snapshot`, whose clock is `ahead`
    /// microseconds ahead of the slowest.
    pub fn replace(&mut self, snapshot: &Snapshot, ahead: u64, at: u64) {
        self.ahead = ahead;
        self.restart(snapshot, at);
    }

    /// Replaces the data, as a replica does with those of its master.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.engine.restore(snapshot);
    }

    /// Makes it a replica, which refuses writes, or a master.
    pub fn set_replica(&mut self, replica: bool) {
        self.engine.set_condition(Condition::ReadOnly, replica);
    }

    /// Keeps messages for the other nodes of a cluster.
    pub fn keep_messages(&mut self) {
        self.engine.keep_messages();
    }

    /// Takes the messages for the other nodes of a cluster: channels and texts.
    pub fn take_messages(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.engine.take_messages()
    }

    /// Sends a message of another server to the subscribers of a channel.
    pub fn hear(&mut self, channel: &[u8], payload: &[u8]) {
        self.engine.hear(channel, payload);
    }

    /// Removes all data and goes on.
    pub fn flush_all(&mut self) {
        self.engine.restore(&Snapshot::empty());
    }

    /// Returns the engine, for inspection.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// An engine that returns to its thread at the end of the seed. A new engine with compiled scripts
/// costs as much as a tenth of a seed.
#[derive(Debug)]
struct Lent(Option<Engine>);

impl Lent {
    fn new(model: Model, now: ServerTime) -> Self {
        let used = USED.with_borrow_mut(|used| {
            let at = used.iter().position(|engine| engine.model() == model)?;
            Some(used.swap_remove(at))
        });
        let engine = used.map_or_else(
            || Engine::new(model, now),
            |mut engine| {
                engine.start_over(now);
                engine
            },
        );
        Self(Some(engine))
    }
}

impl Deref for Lent {
    type Target = Engine;

    #[expect(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref(&self) -> &Engine {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Lent {
    #[expect(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref_mut(&mut self) -> &mut Engine {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // After a panic the state of the engine is unknown. At the end of the thread there is no
        // pool to return it to.
        if let Some(engine) = self.0.take().filter(|_| !thread::panicking()) {
            let _ = USED.try_with(|used| used.borrow_mut().push(engine));
        }
    }
}

thread_local! {
    /// The engines of completed seeds.
    static USED: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}
