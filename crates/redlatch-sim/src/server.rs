//! The server: the embedded engine, its clock, and scripts that a mutant may have replaced.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    thread,
};

use redlatch_core::runtime::{Command, Reply};
use redlatch_embedded::{
    Model, ServerTime,
    engine::{Delivery, Engine, SessionId, SessionKind, Snapshot},
};

use crate::{mutants::Forgery, runtime::Clock};

/// One server with its clock.
#[derive(Debug)]
pub struct Server {
    engine: Lent,
    clock: Clock,
    /// What steps of the clock come to, in microseconds.
    stepped: i64,
    /// How much the clock of the server in charge is ahead of the slowest of those that may take
    /// over, in microseconds.
    ahead: u64,
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

    /// Takes what is to be pushed.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        self.engine.take_deliveries()
    }

    /// Forgets all scripts.
    pub fn flush_scripts(&mut self) {
        self.engine.flush_scripts();
    }

    /// Returns a copy of all data.
    pub fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    /// Starts anew with the data of `snapshot`.
    pub fn restart(&mut self, snapshot: &Snapshot, at: u64) {
        let time = self.time(at);
        self.engine.restart(snapshot, time);
    }

    /// Gives its place to another server with the data of `snapshot`, whose clock is `ahead` of the
    /// slowest by so many microseconds.
    pub fn replace(&mut self, snapshot: &Snapshot, ahead: u64, at: u64) {
        self.ahead = ahead;
        self.restart(snapshot, at);
    }

    /// Forgets all data and goes on.
    pub fn flush_all(&mut self) {
        self.engine.restore(&Snapshot::empty());
    }

    /// Returns the engine, to look into it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// An engine that goes back to its thread when the seed is over: to make one, and to compile its
/// scripts, costs as much as a tenth of a seed.
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
        // After a panic nobody knows what is in it, and when the thread ends there is nobody to
        // keep it.
        if let Some(engine) = self.0.take().filter(|_| !thread::panicking()) {
            let _ = USED.try_with(|used| used.borrow_mut().push(engine));
        }
    }
}

thread_local! {
    /// The engines of the seeds that are over.
    static USED: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}
