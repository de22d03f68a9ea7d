//! One multiplexed connection and whether it still lives.

use std::{future::Future, pin::pin};

use redis::{Cmd, RedisError, aio::MultiplexedConnection};

use super::{
    combine::{Combiner, Count},
    error, exchange,
    pushes::Gone,
    value,
};
use crate::runtime::{Command, Outcome};

/// A multiplexed connection. It closes when this and the last [`handle`](Self::handle) have been dropped.
#[derive(Debug)]
pub(super) struct Wire {
    conn: MultiplexedConnection,
    gone: Gone,
    calls: Count,
    /// Calls that are in the hands of the combiner.
    combined: Count,
    combiner: Combiner,
}

impl Wire {
    /// Inside of the tokio runtime that `conn` was dialled on.
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

    /// Returns a handle of its own for calls that the crate offers as methods.
    pub(super) fn handle(&self) -> MultiplexedConnection {
        self.conn.clone()
    }

    /// Tells whether commands were ever combined.
    #[cfg(test)]
    pub(super) fn combines(&self) -> bool {
        self.combiner.is_running()
    }

    /// Sends commands, with nothing between them, and returns one outcome each. None of them may be
    /// empty.
    ///
    /// A single command may go in one pipeline with those of others, and then several others that
    /// come later at once go before it. A single one never goes before a single one that was polled
    /// before.
    ///
    /// A dropped call leaves its place in the queue of replies, so that the replies of others stay
    /// theirs.
    pub(super) async fn exchange(&self, commands: Vec<Command>) -> Vec<Outcome> {
        if self.gone.is() {
            return vec![error::closed(); commands.len()];
        }
        let _call = self.calls.begin();
        let [command] = commands.as_slice() else {
            return Box::pin(self.exchange_in_order(commands)).await;
        };
        let cmd = value::cmd(command);
        drop(commands);
        let outcome = if self.calls.is_many() || self.combined.is_any() {
            let _combined = self.combined.begin();
            self.combiner.exchange(cmd).await
        } else {
            // Few calls are never held up.
            Box::pin(self.exchange_one(cmd)).await
        };
        vec![outcome]
    }

    /// As [`exchange`](Self::exchange), behind everything that was polled before if that went by this, too.
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

    /// Waits for an answer of the server; without one the error is the outcome.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, RedisError>> + Unpin,
    ) -> Result<T, Outcome> {
        exchange::answer(&self.gone, call).await
    }
}
