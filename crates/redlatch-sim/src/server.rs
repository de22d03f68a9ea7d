//! The server: the embedded engine, its clock, and scripts that a mutant may have replaced.

use redlatch_core::runtime::{Command, Reply};
use redlatch_embedded::{
    Model, ServerTime,
    engine::{Condition, SessionId, Snapshot},
};

use crate::{lent::Lent, mutants::Forgery, runtime::Clock};

/// One server with its clock.
#[derive(Debug)]
pub struct Server {
    pub(crate) engine: Lent,
    clock: Clock,
    /// The sum of the clock's steps, in microseconds.
    pub stepped: i64,
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

    /// Runs one command.
    pub fn execute(&mut self, session: SessionId, command: &Command, at: u64) -> Reply {
        let time = self.time(at);
        let forgery = self.forgery.as_ref();
        let forged = forgery.and_then(|forgery| forgery.forge(command));
        let command = forged.as_ref().unwrap_or(command);
        self.engine.execute(session, command, time)
    }

    /// Restarts with the data of `snapshot`, or replaces the server by another, whose clock is
    /// `ahead` microseconds ahead of the slowest.
    pub fn restart(&mut self, snapshot: &Snapshot, ahead: Option<u64>, at: u64) {
        self.ahead = ahead.unwrap_or(self.ahead);
        let time = self.time(at);
        self.engine.restart(snapshot, time);
        self.restarts += 1;
    }

    /// Makes it a replica, which refuses writes, or a master.
    pub fn set_replica(&mut self, replica: bool) {
        self.engine.set_condition(Condition::ReadOnly, replica);
    }
}
