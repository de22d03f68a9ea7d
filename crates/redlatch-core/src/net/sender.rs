//! The one place that sends scripts.

use super::{Limit, Session};
use crate::{
    script::{CallOutcome, ScriptCall, server_millis},
    seam::{Command, Outcome},
};

/// Whether a node is asked for what it is not in charge of yet, as `ASK` tells to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asking {
    No,
    Yes,
}

/// Sends `calls` as one pipeline of EVALSHA; those whose script the server does not have go again to the same node, with the
/// text where it first occurs. One outcome per call, in order.
pub(super) async fn send(
    session: &Session,
    calls: &[&ScriptCall],
    by: u64,
    limit: Limit,
    asking: Asking,
) -> Vec<CallOutcome> {
    let batch = calls.iter().map(|call| call.evalsha(by)).collect();
    let mut outcomes = pipeline(session, batch, limit, asking).await;
    if outcomes.iter().any(is_noscript) {
        let again = send_missing(session, calls, by, limit, asking, None, &mut outcomes);
        Box::pin(again).await;
    }
    classified(session, outcomes)
}

/// Sends `calls` as [`send`] does and `last` behind them, whose outcome comes second. Behind scripts that the server did not have it is
/// sent again.
pub(super) async fn send_and(
    session: &Session,
    calls: &[&ScriptCall],
    by: u64,
    limit: Limit,
    asking: Asking,
    last: &Command,
) -> (Vec<CallOutcome>, Option<Outcome>) {
    let mut batch: Vec<_> = calls.iter().map(|call| call.evalsha(by)).collect();
    batch.push(last.clone());
    let mut outcomes = pipeline(session, batch, limit, asking).await;
    let mut behind = outcomes.pop();
    if outcomes.iter().any(is_noscript) {
        let again = send_missing(session, calls, by, limit, asking, Some(last), &mut outcomes);
        behind = Box::pin(again).await.or(behind);
    }
    (classified(session, outcomes), behind)
}

/// Sends those of which `outcomes` says that the server lacks the script, with the script, and `last` behind them; returns the outcome of that.
async fn send_missing(
    session: &Session,
    calls: &[&ScriptCall],
    by: u64,
    limit: Limit,
    asking: Asking,
    last: Option<&Command>,
    outcomes: &mut [Outcome],
) -> Option<Outcome> {
    let missing: Vec<_> = (0..outcomes.len())
        .filter(|&at| is_noscript(&outcomes[at]))
        .collect();
    let mut loaded: Vec<&str> = Vec::new();
    let batch = missing.iter().map(|&at| {
        let call = calls[at];
        if loaded.contains(&call.script().name()) {
            return call.evalsha(by);
        }
        loaded.push(call.script().name());
        call.eval(by)
    });
    let batch = batch.chain(last.cloned()).collect();
    let mut again = pipeline(session, batch, limit, asking).await;
    let behind = last.and_then(|_| again.pop());
    for (at, outcome) in missing.into_iter().zip(again) {
        outcomes[at] = outcome;
    }
    behind
}

/// Classifies outcomes and takes in the time that the server has told last.
fn classified(session: &Session, outcomes: Vec<Outcome>) -> Vec<CallOutcome> {
    let outcomes: Vec<_> = outcomes.into_iter().map(CallOutcome::of).collect();
    if let Some(millis) = outcomes.iter().rev().find_map(replied_millis) {
        session.observe(millis);
    }
    outcomes
}

/// An `ASKING` goes before each command it is for, in the same pipeline: over a shared connection nothing may come between them.
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
