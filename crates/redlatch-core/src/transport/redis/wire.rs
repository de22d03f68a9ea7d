//! One multiplexed connection and whether it still lives.

use std::{future::Future, pin::pin};

use futures_util::FutureExt;
use redis::{Cmd, Pipeline, RedisError, aio::MultiplexedConnection};
use tokio::select;

use super::{
    combine::{Combiner, Count},
    error,
    pushes::Gone,
    value,
};
use crate::seam::{Command, Outcome, Reply};

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

    /// Sends commands, with nothing between them, and returns one outcome each. None of them may be empty.
    ///
    /// A single command may go in one pipeline with those of others, and then several others that come later at once go before it. A single one never goes
    /// before a single one that was polled before.
    ///
    /// A dropped call leaves its place in the queue of replies, so that the replies of others stay theirs.
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
        exchange_all(&mut self.conn.clone(), &self.gone, cmds).await
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
        answer(&self.gone, call).await
    }
}

/// Sends commands as one pipeline and returns one outcome each.
pub(super) async fn exchange_all(
    conn: &mut MultiplexedConnection,
    gone: &Gone,
    cmds: impl ExactSizeIterator<Item = Cmd>,
) -> Vec<Outcome> {
    let count = cmds.len();
    let mut pipeline = Pipeline::with_capacity(count);
    cmds.for_each(|cmd| {
        pipeline.add_command(cmd);
    });
    let call = pin!(conn.send_packed_commands(&pipeline, 0, count));
    match answer(gone, call).await {
        Ok(replies) if replies.len() == count => replies
            .into_iter()
            .map(|reply| Outcome::Replied(value::reply(reply)))
            .collect(),
        Ok(replies) => {
            let why = format!("{} replies for {count} commands", replies.len());
            vec![Outcome::Unknown(why); count]
        }
        Err(outcome) => vec![outcome; count],
    }
}

/// The outcome of a command whose connection ended before its answer.
pub(super) fn unanswered() -> Outcome {
    Outcome::Unknown("the connection closed before the answer".to_owned())
}

/// Waits for an answer of the server or for the end of the connection, and marks the latter.
///
/// A call of the crate need not end with its connection: one that queues its message just while the task that drives
/// the socket ends waits for ever.
pub(super) async fn answer<T>(
    gone: &Gone,
    mut call: impl Future<Output = Result<T, RedisError>> + Unpin,
) -> Result<T, Outcome> {
    let answer = select! {
        biased;
        answer = &mut call => Some(answer),
        // The answer may have come between the two looks.
        () = gone.wait() => call.now_or_never(),
    };
    let Some(answer) = answer else {
        return Err(unanswered());
    };
    answer.map_err(|failed| match error::server_error(&failed) {
        Some(refusal) => Outcome::Replied(Reply::Err(refusal)),
        None => {
            gone.mark();
            Outcome::Unknown(failed.to_string())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{future, io};

    use super::*;

    #[test]
    fn a_call_that_never_ends_ends_with_its_connection() {
        let gone = Gone::default();
        let mut call = pin!(answer(&gone, future::pending::<Result<(), RedisError>>()));
        assert_eq!(call.as_mut().now_or_never(), None);
        gone.mark();
        let outcome = call.now_or_never();
        assert!(
            matches!(outcome, Some(Err(Outcome::Unknown(_)))),
            "{outcome:?}"
        );
    }

    #[test]
    fn an_answer_counts_even_if_the_connection_is_gone() {
        let gone = Gone::default();
        gone.mark();
        let outcome = answer(&gone, future::ready(Ok::<_, RedisError>(7))).now_or_never();
        assert_eq!(outcome, Some(Ok(7)));
    }

    #[test]
    fn only_failures_below_the_protocol_end_the_connection() {
        let gone = Gone::default();
        let refusal = redis::parse_redis_value(b"-NOPERM no\r\n").and_then(|v| v.extract_error());
        let outcome = answer(&gone, future::ready(refusal)).now_or_never();
        let refused = Outcome::Replied(Err(crate::seam::ServerError::parse("NOPERM no")));
        assert_eq!((outcome, gone.is()), (Some(Err(refused)), false));

        let broken = RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        let outcome = answer(&gone, future::ready(Err::<(), _>(broken))).now_or_never();
        assert_eq!(outcome, Some(Err(Outcome::Unknown("broken pipe".into()))));
        assert!(gone.is());
    }
}
