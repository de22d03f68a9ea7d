//! The only place that sends scripts.

use super::{
    Checked, Dispatch, Limit, Session,
    durable::{Acknowledged, Replication},
    request::{Request, Response},
};
use crate::{
    base::{
        items::server_millis,
        merge::{MergedCall, Part},
        script::{CallOutcome, Script, ScriptCall},
    },
    protocol::{classify::refuses_all, remains::Effect},
    runtime::{Command, Outcome},
};

/// Whether `ASKING` precedes the commands, as an `ASK` redirection demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asking {
    No,
    Yes,
}

/// Sends the calls of `request`, followed by the `WAIT` for its replicas.
///
/// A call that merges with others may go as an entry of a list, with calls of the same request
/// or of other tasks. If the server refuses the list, each of its calls is sent again by
/// itself. All scripts are idempotent, so it does not matter whether the list acted.
pub(super) async fn send(session: &Session, request: &Request<'_>, asking: Asking) -> Response {
    let [call] = request.calls else {
        return Box::pin(send_many(session, request, asking)).await;
    };
    let joins = request.dispatch == Dispatch::Together
        && request.replication.is_none()
        && asking == Asking::No
        && call.list().is_some();
    let under_way = joins.then(|| session.begin_call());
    let (mut checked, mut before) = (request.checked, Effect::Nothing);
    if let Some(under_way) = &under_way
        && under_way.has_company()
        && session.merges(call, checked.unwrap_or_else(|| session.now()))
        && let Some(joined) = session.join(call, request.act_before)
    {
        match session.joined(joined, request.limit, checked).await {
            Ok(outcome) => return Response::unconfirmed(vec![outcome]),
            Err(effect) => before = effect,
        }
        checked = None;
    }
    let batch = std::iter::once(call.evalsha(request.act_before));
    let batch = batch.chain(wait(request)).collect();
    let mut outcomes = pipeline(session, batch, request.whole_limit(), asking, checked).await;
    let mut waited = outcomes.pop_if(|_| request.replication.is_some());
    if outcomes.iter().any(is_noscript) {
        let again = async {
            let units = [Unit::One(call)];
            send_missing(session, request, asking, &units, &mut outcomes).await
        };
        waited = Box::pin(again).await.or(waited);
    }
    if before != Effect::Nothing {
        // The list may have acted, so "not sent" would promise too much.
        for outcome in &mut outcomes {
            if let Outcome::NotSent(why) = outcome {
                *outcome = Outcome::Unknown(std::mem::take(why));
            }
        }
    }
    if under_way.is_some() && outcomes.iter().any(is_refusal) {
        session.keep_apart(call);
    }
    Response {
        before,
        ..respond(session, request, outcomes, waited)
    }
}

/// Sends the calls of `request`, merged as far as possible. Then sends the calls of refused lists
/// again.
async fn send_many(session: &Session, request: &Request<'_>, asking: Asking) -> Response {
    let units = units(session, request, asking);
    if units.len() == request.calls.len() {
        let (outcomes, waited) = exchange(session, request, asking, &units).await;
        return respond(session, request, outcomes, waited);
    }
    send_merged(session, request, asking, &units).await
}

/// The content of one command of a pipeline: one call, or several joined calls.
enum Unit<'a> {
    One(&'a ScriptCall),
    /// A list, and the places of its calls in the request.
    Many(Box<MergedCall>, Vec<usize>),
}

impl Unit<'_> {
    const fn script(&self) -> &'static Script {
        match self {
            Self::One(call) => call.script(),
            Self::Many(merged, _) => merged.script(),
        }
    }

    fn evalsha(&self, act_before: u64) -> Command {
        match self {
            Self::One(call) => call.evalsha(act_before),
            Self::Many(merged, _) => merged.evalsha(),
        }
    }

    fn eval(&self, act_before: u64) -> Command {
        match self {
            Self::One(call) => call.eval(act_before),
            Self::Many(merged, _) => merged.eval(),
        }
    }
}

/// Merges the calls of `request` as far as possible.
fn units<'a>(session: &Session, request: &Request<'a>, asking: Asking) -> Vec<Unit<'a>> {
    let mut units = Vec::with_capacity(request.calls.len());
    let merges = request.calls.len() > 1 && asking == Asking::No;
    let (slots, now) = (session.slots(), session.now());
    for (at, &call) in request.calls.iter().enumerate() {
        let merges = merges && session.merges(call, now);
        let part = merges.then(|| Part::of(call, request.act_before, slots));
        let Some(part) = part.flatten() else {
            units.push(Unit::One(call));
            continue;
        };
        let added = units.iter_mut().any(|unit| match unit {
            Unit::Many(merged, places) => {
                let added = merged.add(&part);
                if added {
                    places.push(at);
                }
                added
            }
            Unit::One(_) => false,
        });
        if !added {
            let merged = Box::new(MergedCall::of(&part));
            units.push(Unit::Many(merged, vec![at]));
        }
    }
    for unit in &mut units {
        if let Unit::Many(_, places) = unit
            && let [at] = places[..]
        {
            *unit = Unit::One(request.calls[at]);
        }
    }
    units
}

/// Sends `units`, some of which are lists. Then sends the calls of refused common calls
/// again.
async fn send_merged(
    session: &Session,
    request: &Request<'_>,
    asking: Asking,
    units: &[Unit<'_>],
) -> Response {
    let (replies, mut waited) = exchange(session, request, asking, units).await;
    let mut outcomes: Vec<Option<Outcome>> = vec![None; request.calls.len()];
    let mut ones = request.calls.iter().enumerate();
    for (unit, outcome) in units.iter().zip(replies) {
        match unit {
            Unit::One(call) => {
                let same = |&(_, one): &(usize, &&ScriptCall)| std::ptr::eq(*one, *call);
                if let Some((at, _)) = ones.find(same) {
                    outcomes[at] = Some(outcome);
                }
            }
            Unit::Many(merged, places) => {
                for (&at, outcome) in places.iter().zip(split(session, merged, outcome)) {
                    outcomes[at] = outcome;
                }
            }
        }
    }
    let alone: Vec<_> = (0..outcomes.len())
        .filter(|&at| outcomes[at].is_none())
        .collect();
    if !alone.is_empty() {
        let units: Vec<_> = alone
            .iter()
            .map(|&at| Unit::One(request.calls[at]))
            .collect();
        let (again, last) = exchange(session, request, asking, &units).await;
        waited = last.or(waited);
        for (at, outcome) in alone.into_iter().zip(again) {
            if is_refusal(&outcome) {
                session.keep_apart(request.calls[at]);
            }
            // The list may have executed the call.
            outcomes[at] = Some(match outcome {
                Outcome::NotSent(why) => Outcome::Unknown(why),
                outcome => outcome,
            });
        }
    }
    respond(
        session,
        request,
        outcomes.into_iter().flatten().collect(),
        waited,
    )
}

/// Returns the outcome of each call of a list; `None` for a call to be sent by itself.
fn split(session: &Session, merged: &MergedCall, outcome: Outcome) -> Vec<Option<Outcome>> {
    let replies = match &outcome {
        Outcome::Replied(Ok(value)) => merged.replies(value),
        Outcome::Replied(Err(error)) if !refuses_all(&error.code) => {
            session.refused_together(Some(error), merged);
            return vec![None; merged.len()];
        }
        failed => return vec![Some(failed.clone()); merged.len()],
    };
    let Some(replies) = replies else {
        session.refused_together(None, merged);
        return vec![None; merged.len()];
    };
    let replies = replies.into_iter();
    replies.map(|reply| Some(Outcome::Replied(reply))).collect()
}

/// Sends `units` as one pipeline of `EVALSHA`, followed by the `WAIT` of `request`. If the server
/// lacks a script, the affected units are sent again to the same node, with the script text in the
/// first unit of each script, and followed by another `WAIT`. Returns the outcomes, and that of the
/// last `WAIT`.
async fn exchange(
    session: &Session,
    request: &Request<'_>,
    asking: Asking,
    units: &[Unit<'_>],
) -> (Vec<Outcome>, Option<Outcome>) {
    let batch = units.iter().map(|unit| unit.evalsha(request.act_before));
    let batch = batch.chain(wait(request)).collect();
    let mut outcomes = pipeline(session, batch, request.whole_limit(), asking, None).await;
    let mut waited = outcomes.pop_if(|_| request.replication.is_some());
    if outcomes.iter().any(is_noscript) {
        let again = send_missing(session, request, asking, units, &mut outcomes);
        waited = Box::pin(again).await.or(waited);
    }
    (outcomes, waited)
}

/// Sends the units again whose script the server lacks according to `outcomes`, with the script
/// text and followed by the `WAIT` for replicas. Returns the outcome of that `WAIT`.
async fn send_missing(
    session: &Session,
    request: &Request<'_>,
    asking: Asking,
    units: &[Unit<'_>],
    outcomes: &mut [Outcome],
) -> Option<Outcome> {
    let missing: Vec<_> = (0..outcomes.len())
        .filter(|&at| is_noscript(&outcomes[at]))
        .collect();
    let mut loaded: Vec<&str> = Vec::new();
    let batch = missing.iter().map(|&at| {
        let unit = &units[at];
        if loaded.contains(&unit.script().name) {
            return unit.evalsha(request.act_before);
        }
        loaded.push(unit.script().name);
        unit.eval(request.act_before)
    });
    let batch = batch.chain(wait(request)).collect();
    let mut again = pipeline(session, batch, request.whole_limit(), asking, None).await;
    let waited = again.pop_if(|_| request.replication.is_some());
    for (at, outcome) in missing.into_iter().zip(again) {
        outcomes[at] = outcome;
    }
    waited
}

fn wait(request: &Request<'_>) -> Option<Command> {
    request.replication.map(Replication::command)
}

/// Makes the response to `request` of the outcomes of its calls, and that of the `WAIT`.
fn respond(
    session: &Session,
    request: &Request<'_>,
    outcomes: Vec<Outcome>,
    waited: Option<Outcome>,
) -> Response {
    let outcomes = classified(session, outcomes);
    let replied = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Replied(_));
    let executed = outcomes.iter().any(replied);
    let acknowledged =
        (request.replication.is_some() && executed).then(|| Acknowledged::read(session, waited));
    Response {
        acknowledged,
        ..Response::unconfirmed(outcomes)
    }
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
    checked: Checked,
) -> Vec<Outcome> {
    if asking == Asking::No {
        return session.send(batch, limit, checked).await;
    }
    let batch = batch
        .into_iter()
        .flat_map(|command| [Command::new("ASKING"), command])
        .collect();
    let outcomes = session.send(batch, limit, checked).await;
    outcomes.into_iter().skip(1).step_by(2).collect()
}

fn is_noscript(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(error)) if error.code == "NOSCRIPT")
}

/// Tells whether the server has answered with an error.
const fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(_)))
}

fn replied_millis(outcome: &CallOutcome) -> Option<u64> {
    match outcome {
        CallOutcome::Replied(reply) => server_millis(reply),
        CallOutcome::Failed(_) => None,
    }
}
