//! The server: the embedded engine, its clock, and scripts that a mutant may have replaced.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
    thread,
};

use redlatch_core::runtime::{Command, Reply};
use redlatch_embedded::{
    Model, ServerTime,
    engine::{Condition, Engine, SessionId, Snapshot},
};

use crate::{mutants::Forgery, runtime::Clock};

/// One server with its clock. Its engine returns to its thread at the end of the seed, because a
/// new engine with compiled scripts costs as much as a tenth of a seed.
#[derive(Debug)]
pub struct Server {
    engine: Option<Engine>,
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
        let used = USED.with_borrow_mut(|used| {
            let at = used.iter().position(|engine| engine.model() == model)?;
            Some(used.swap_remove(at))
        });
        let mut engine = used.unwrap_or_else(|| Engine::new(model, now));
        engine.start_over(now);
        Self {
            engine: Some(engine),
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

    /// Runs one command.
    pub fn execute(&mut self, session: SessionId, command: &Command, at: u64) -> Reply {
        let time = self.time(at);
        let forgery = self.forgery.as_ref();
        let forged = forgery.and_then(|forgery| forgery.forge(command));
        let command = forged.as_ref().unwrap_or(command);
        Engine::execute(self, session, command, time)
    }

    /// Restarts with the data of `snapshot`, or replaces the server by another, whose clock is
    /// `ahead` microseconds ahead of the slowest.
    pub fn restart(&mut self, snapshot: &Snapshot, ahead: Option<u64>, at: u64) {
        self.ahead = ahead.unwrap_or(self.ahead);
        let time = self.time(at);
        Engine::restart(self, snapshot, time);
        self.restarts += 1;
    }

    /// Makes it a replica, which refuses writes, or a master.
    pub fn set_replica(&mut self, replica: bool) {
        self.set_condition(Condition::ReadOnly, replica);
    }
}

impl Deref for Server {
    type Target = Engine;

    #[expect(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref(&self) -> &Engine {
        let engine = self.engine.as_ref();
        engine.expect("it is there until it is dropped")
    }
}

impl DerefMut for Server {
    #[expect(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref_mut(&mut self) -> &mut Engine {
        let engine = self.engine.as_mut();
        engine.expect("it is there until it is dropped")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a panic the state of the engine is unknown. At the end of the thread there is no
        // pool to return it to.
        if let Some(engine) = self.engine.take().filter(|_| !thread::panicking()) {
            let _ = USED.try_with(|used| used.borrow_mut().push(engine));
        }
    }
}

thread_local! {
    /// The engines of completed seeds.
    static USED: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}
