//! Sends commands over one connection, and produces outcomes for unanswered ones.

use std::{future::Future, pin::pin};

use futures_util::FutureExt;
use redis::{Cmd, Pipeline, RedisError, aio::MultiplexedConnection};
use tokio::select;

use super::{error, pushes::Gone, value};
use crate::runtime::{Outcome, Reply};

/// Sends commands as one pipeline and returns one outcome for each.
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

/// Returns the outcome of a command whose connection ended before its answer.
pub(super) fn unanswered() -> Outcome {
    Outcome::Unknown("the connection closed before the answer".to_owned())
}

/// Waits for an answer of the server or for the end of the connection, and marks the connection as
/// gone in the latter case.
///
/// A call of the crate does not always end with its connection. A call that queues its message
/// while the socket task ends waits for ever.
pub(super) async fn answer<T>(
    gone: &Gone,
    mut call: impl Future<Output = Result<T, RedisError>> + Unpin,
) -> Result<T, Outcome> {
    let answer = select! {
        biased;
        answer = &mut call => Some(answer),
        // The answer may have arrived between the two checks.
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
    fn pending_call_ends_with_its_connection() {
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
    fn answer_counts_although_the_connection_is_gone() {
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
        let refused = Outcome::Replied(Err(crate::runtime::ServerError::parse("NOPERM no")));
        assert_eq!((outcome, gone.is()), (Some(Err(refused)), false));

        let broken = RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        let outcome = answer(&gone, future::ready(Err::<(), _>(broken))).now_or_never();
        assert_eq!(outcome, Some(Err(Outcome::Unknown("broken pipe".into()))));
        assert!(gone.is());
    }
}
