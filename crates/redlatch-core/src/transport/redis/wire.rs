//! One multiplexed connection and the knowledge whether it lives.

use std::{future::Future, pin::pin};

use redis::{Cmd, RedisError, aio::MultiplexedConnection};

use super::{
    combine::{Combiner, Count},
    error, exchange,
    pushes::Gone,
    value,
};
use crate::runtime::{Command, Outcome};

/// A multiplexed connection. It closes when the `Wire` and the last [`handle`](Self::handle) are
/// dropped.
#[derive(Debug)]
pub(super) struct Wire {
    conn: MultiplexedConnection,
    gone: Gone,
    calls: Count,
    /// Calls that the combiner handles.
    combined: Count,
    combiner: Combiner,
}

impl Wire {
    /// Creates the wire. The caller is on the tokio runtime on which `conn` was dialled.
    pub(super) fn new(conn: MultiplexedConnection, gone: Gone) -> Self {
        Self {
            combiner: Combiner::new(conn.clone(), gone.clone()),
            conn,
            gone,
            calls: Count::default(),
            combined: Count::default(),
        }
    }

    pub(super) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Returns a separate handle for calls that the crate offers as methods.
    pub(super) fn handle(&self) -> MultiplexedConnection {
        self.conn.clone()
    }

    /// Returns whether commands were ever combined.
    #[cfg(test)]
    pub(super) fn combines(&self) -> bool {
        self.combiner.is_running()
    }

    /// Sends commands with no other command between them, and returns one outcome for each. None of
    /// them may be empty.
    ///
    /// A single command may share a pipeline with those of other callers. Several commands that are
    /// sent together may then overtake it. A single command never overtakes a single command that
    /// was polled earlier.
    ///
    /// # Cancel safety
    ///
    /// A dropped call keeps its place in the queue of replies, so that the replies of other callers
    /// do not shift.
    pub(super) async fn exchange(&self, commands: Vec<Command>) -> Vec<Outcome> {
        if self.gone.is() {
            return vec![error::closed(); commands.len()];
        }
        let _call = self.calls.begin();
        let [command] = commands.as_slice() else {
            return Box::pin(self.exchange_in_order(commands)).await;
        };
        // Much of the cost of a long command is its length, which a pipeline does not save.
        let is_short = command.payload_len() < LONG;
        let cmd = value::cmd(command);
        drop(commands);
        let outcome = if self.calls.is_many() && is_short || self.combined.is_any() {
            let _combined = self.combined.begin();
            self.combiner.exchange(cmd).await
        } else {
            // A small number of calls is never delayed.
            Box::pin(self.exchange_one(cmd)).await
        };
        vec![outcome]
    }

    /// Sends commands as [`exchange`](Self::exchange) does, but never overtakes an earlier call of
    /// this method.
    pub(super) async fn exchange_in_order(&self, commands: Vec<Command>) -> Vec<Outcome> {
        let cmds = commands.iter().map(value::cmd);
        exchange::exchange_all(&mut self.conn.clone(), &self.gone, cmds).await
    }

    async fn exchange_one(&self, cmd: Cmd) -> Outcome {
        let mut conn = self.conn.clone();
        let call = pin!(conn.send_packed_command(&cmd));
        match self.answer(call).await {
            Ok(reply) => Outcome::Replied(value::reply(reply)),
            Err(outcome) => outcome,
        }
    }

    /// Waits for an answer of the server. Without an answer, the error is the outcome.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, RedisError>> + Unpin,
    ) -> Result<T, Outcome> {
        exchange::answer(&self.gone, call).await
    }
}

/// The length in bytes from which a command is not combined with others.
const LONG: usize = 512;
