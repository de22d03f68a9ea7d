//! The only place that sends scripts.

use super::{
    Limit, Session,
    durable::{Acknowledged, Replication},
    request::{Request, Response},
};
use crate::{
    base::script::{CallOutcome, server_millis},
    runtime::{Command, Outcome},
};

/// Whether `ASKING` precedes the commands, as an `ASK` redirection demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asking {
    No,
    Yes,
}

/// Sends the calls of `request` as one pipeline of `EVALSHA`, followed by the `WAIT` for its
/// replicas. If the server lacks a script, the affected calls are sent again to the same node, with
/// the script text in the first call of each script, and followed by another `WAIT`.
pub(super) async fn send(session: &Session, request: &Request<'_>, asking: Asking) -> Response {
    let calls = request.calls.iter();
    let batch = calls.map(|call| call.evalsha(request.act_before));
    let batch = batch.chain(wait(request)).collect();
    let mut outcomes = pipeline(session, batch, request.whole_limit(), asking).await;
    let mut waited = outcomes.pop_if(|_| request.replication.is_some());
    if outcomes.iter().any(is_noscript) {
        let again = send_missing(session, request, asking, &mut outcomes);
        waited = Box::pin(again).await.or(waited);
    }
    let outcomes = classified(session, outcomes);
    let replied = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Replied(_));
    let executed = outcomes.iter().any(replied);
    let acknowledged =
        (request.replication.is_some() && executed).then(|| Acknowledged::read(session, waited));
    Response {
        outcomes,
        acknowledged,
    }
}

/// Sends the calls again whose script the server lacks according to `outcomes`, with the script
/// text and followed by the `WAIT` for replicas. Returns the outcome of that `WAIT`.
async fn send_missing(
    session: &Session,
    request: &Request<'_>,
    asking: Asking,
    outcomes: &mut [Outcome],
) -> Option<Outcome> {
    let missing: Vec<_> = (0..outcomes.len())
        .filter(|&at| is_noscript(&outcomes[at]))
        .collect();
    let mut loaded: Vec<&str> = Vec::new();
    let batch = missing.iter().map(|&at| {
        let call = request.calls[at];
        if loaded.contains(&call.script().name()) {
            return call.evalsha(request.act_before);
        }
        loaded.push(call.script().name());
        call.eval(request.act_before)
    });
    let batch = batch.chain(wait(request)).collect();
    let mut again = pipeline(session, batch, request.whole_limit(), asking).await;
    let waited = again.pop_if(|_| request.replication.is_some());
    for (at, outcome) in missing.into_iter().zip(again) {
        outcomes[at] = outcome;
    }
    waited
}

fn wait(request: &Request<'_>) -> Option<Command> {
    request.replication.map(Replication::command)
}

/// Classifies outcomes, and records the last reported time of the server.
fn classified(session: &Session, outcomes: Vec<Outcome>) -> Vec<CallOutcome> {
    let outcomes: Vec<_> = outcomes.into_iter().map(CallOutcome::of).collect();
    if let Some(millis) = outcomes.iter().rev().find_map(replied_millis) {
        session.observe(millis);
    }
    outcomes
}

/// Sends `batch` as one pipeline, with an `ASKING` before each command if necessary. Both are in
/// the same pipeline, because on a shared connection no other command may come between them.
pub(super) async fn pipeline(
    session: &Session,
    batch: Vec<Command>,
    limit: Limit,
    asking: Asking,
) -> Vec<Outcome> {
    if asking == Asking::No {
        return session.send(batch, limit).await;
    }
    let batch = batch
        .into_iter()
        .flat_map(|command| [Command::new("ASKING"), command])
        .collect();
    let outcomes = session.send(batch, limit).await;
    outcomes.into_iter().skip(1).step_by(2).collect()
}

fn is_noscript(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(error)) if error.code == "NOSCRIPT")
}

fn replied_millis(outcome: &CallOutcome) -> Option<u64> {
    match outcome {
        CallOutcome::Replied(reply) => server_millis(reply),
        CallOutcome::Failed(_) => None,
    }
}
