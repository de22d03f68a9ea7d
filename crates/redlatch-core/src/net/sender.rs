//! Requests to a node, the `WAIT` behind them, and their responses. This is the only place that
//! sends scripts.

use std::time::Duration;

use super::{Checked, Limit, LinkClass, Session, batcher::is_noscript};
use crate::{
    Durability, Error, ErrorKind,
    base::{
        items::server_millis,
        merge::{MergedCall, Part},
        script::{CallOutcome, Script, ScriptCall},
    },
    protocol::{
        classify::{Class, classify},
        remains::Effect,
        rights,
        server_clock::whole_millis,
    },
    runtime::{Command, Outcome, ServerError},
};

/// Calls that one node serves, sent as one pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) calls: &'a [&'a ScriptCall],
    /// The last server time at which the calls may act, in milliseconds since the epoch.
    pub(crate) act_before: u64,
    /// How long the request waits for its answers.
    pub(crate) limit: Limit,
    /// The confirmations that the server waits for behind the calls.
    pub(crate) replication: Option<Replication>,
    pub(crate) dispatch: Dispatch,
    pub(crate) checked: Checked,
}

/// When a request leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// It leaves when its future is polled first, so that no later request overtakes it.
    AtOnce,
    /// It may wait for calls of other tasks that are ready at the same time.
    Together,
}

impl Request<'_> {
    /// Returns how long the request waits for its answers, including the wait for replicas.
    /// Requests on one connection wait for replicas one after the other.
    pub(super) fn whole_limit(&self) -> Limit {
        let waits = self.replication.map(|wanted| wanted.timeout);
        Limit {
            silence: self.limit.silence + waits.unwrap_or_default(),
            ..self.limit
        }
    }
}

/// The response to a [`Request`].
#[derive(Debug)]
pub(crate) struct Response {
    /// One outcome per call, in order.
    pub(crate) outcomes: Vec<CallOutcome>,
    /// The answer about replicas. `None` if the request asks for no confirmation, or if no call was
    /// executed.
    pub(crate) acknowledged: Option<Acknowledged>,
    /// The effect on its call of a list that was refused before the call went by itself.
    pub(crate) before: Effect,
}

impl Response {
    /// Returns the response to a request that has no answer about replicas.
    pub(super) const fn unconfirmed(outcomes: Vec<CallOutcome>) -> Self {
        Self {
            outcomes,
            acknowledged: None,
            before: Effect::Nothing,
        }
    }

    /// Returns the outcome of a request with one call, and the answer about replicas.
    pub(crate) fn into_single(mut self) -> (CallOutcome, Option<Acknowledged>) {
        (self.outcomes.swap_remove(0), self.acknowledged)
    }
}

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
    let under_way = joins.then(|| session.batcher.begin());
    let (mut checked, mut before) = (request.checked, Effect::Nothing);
    if under_way.is_some()
        && session.batcher.has_company()
        && session.merges(call, checked.unwrap_or_else(|| session.world.now()))
        && let Some(joined) = session.batcher.join(call, request.act_before)
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
        let again =
            async { send_missing(session, request, asking, &[Unit::One(0)], &mut outcomes).await };
        waited = Box::pin(again).await.or(waited);
    }
    if before != Effect::Nothing {
        outcomes = outcomes.into_iter().map(in_doubt).collect();
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
    let (replies, mut waited) = exchange(session, request, asking, &units).await;
    let mut outcomes: Vec<Option<Outcome>> = vec![None; request.calls.len()];
    for (unit, outcome) in units.iter().zip(replies) {
        match unit {
            Unit::One(at) => outcomes[*at] = Some(outcome),
            Unit::Many(merged, places) => {
                let each = session.batcher.split(&session.world, merged, outcome);
                for (&at, outcome) in places.iter().zip(each) {
                    outcomes[at] = outcome.ok();
                }
            }
        }
    }
    let alone = (0..outcomes.len()).filter(|&at| outcomes[at].is_none());
    let alone: Vec<_> = alone.collect();
    if !alone.is_empty() {
        let units: Vec<_> = alone.iter().copied().map(Unit::One).collect();
        let (again, last) = exchange(session, request, asking, &units).await;
        waited = last.or(waited);
        for (at, outcome) in alone.into_iter().zip(again) {
            if is_refusal(&outcome) {
                session.keep_apart(request.calls[at]);
            }
            outcomes[at] = Some(in_doubt(outcome));
        }
    }
    let outcomes = outcomes.into_iter().flatten().collect();
    respond(session, request, outcomes, waited)
}

/// The content of one command of a pipeline: one call, or several joined calls.
enum Unit {
    /// The place of the call in the request.
    One(usize),
    /// A list, and the places of its calls in the request.
    Many(Box<MergedCall>, Vec<usize>),
}

impl Unit {
    fn script(&self, request: &Request<'_>) -> &'static Script {
        match self {
            Self::One(at) => request.calls[*at].script(),
            Self::Many(merged, _) => merged.script,
        }
    }

    /// Returns its command, with the text of the script if the server lacks it.
    fn command(&self, request: &Request<'_>, lacks_script: bool) -> Command {
        match self {
            Self::One(at) if lacks_script => request.calls[*at].eval(request.act_before),
            Self::One(at) => request.calls[*at].evalsha(request.act_before),
            Self::Many(merged, _) if lacks_script => merged.eval(),
            Self::Many(merged, _) => merged.evalsha(),
        }
    }
}

/// Merges the calls of `request` as far as possible.
fn units(session: &Session, request: &Request<'_>, asking: Asking) -> Vec<Unit> {
    let mut units = Vec::with_capacity(request.calls.len());
    let merges = request.calls.len() > 1 && asking == Asking::No;
    let (slots, now) = (session.batcher.slots(), session.world.now());
    for (at, &call) in request.calls.iter().enumerate() {
        let merges = merges && session.merges(call, now);
        let part = merges.then(|| Part::of(call, request.act_before, slots));
        let Some(part) = part.flatten() else {
            units.push(Unit::One(at));
            continue;
        };
        let list = units.iter_mut().find_map(|unit| match unit {
            Unit::Many(merged, places) => merged.add(&part).then_some(places),
            Unit::One(_) => None,
        });
        match list {
            Some(places) => places.push(at),
            None => units.push(Unit::Many(Box::new(MergedCall::of(&part)), vec![at])),
        }
    }
    for unit in &mut units {
        if let Unit::Many(_, places) = unit
            && let [at] = places[..]
        {
            *unit = Unit::One(at);
        }
    }
    units
}

/// Sends `units` as one pipeline of `EVALSHA`, followed by the `WAIT` of `request`. If the server
/// lacks a script, the affected units are sent again to the same node, with the script text in the
/// first unit of each script, and followed by another `WAIT`. Returns the outcomes, and that of the
/// last `WAIT`.
async fn exchange(
    session: &Session,
    request: &Request<'_>,
    asking: Asking,
    units: &[Unit],
) -> (Vec<Outcome>, Option<Outcome>) {
    let batch = units.iter().map(|unit| unit.command(request, false));
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
    units: &[Unit],
    outcomes: &mut [Outcome],
) -> Option<Outcome> {
    let missing: Vec<_> = (0..outcomes.len())
        .filter(|&at| is_noscript(&outcomes[at]))
        .collect();
    let mut loaded: Vec<&str> = Vec::new();
    let batch = missing.iter().map(|&at| {
        let script = units[at].script(request).name;
        let is_first = !loaded.contains(&script);
        if is_first {
            loaded.push(script);
        }
        units[at].command(request, is_first)
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

/// Returns the outcome of a call that a list may have executed before. "Not sent" would promise too
/// much.
fn in_doubt(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::NotSent(why) => Outcome::Unknown(why),
        outcome => outcome,
    }
}

/// Makes the response to `request` of the outcomes of its calls, and that of the `WAIT`. Records
/// the last reported time of the server.
fn respond(
    session: &Session,
    request: &Request<'_>,
    outcomes: Vec<Outcome>,
    waited: Option<Outcome>,
) -> Response {
    let outcomes: Vec<_> = outcomes.into_iter().map(CallOutcome::of).collect();
    let millis = outcomes.iter().rev().find_map(|outcome| match outcome {
        CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => server_millis(reply),
        CallOutcome::Failed(_) => None,
    });
    if let Some(millis) = millis {
        session.observe(millis);
    }
    let replied = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Replied(_));
    let executed = outcomes.iter().any(replied);
    let acknowledged =
        (request.replication.is_some() && executed).then(|| Acknowledged::read(session, waited));
    Response {
        acknowledged,
        ..Response::unconfirmed(outcomes)
    }
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

/// Tells whether the server has answered with an error.
const fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Replied(Err(_)))
}

/// The confirmations of a request by replicas.
#[derive(Clone, Debug)]
pub(crate) enum Acknowledged {
    /// This many replicas have confirmed.
    By(u32),
    /// The number is unknown.
    Unknown,
    /// The server refuses to wait for replicas.
    Refused(Error),
}

/// The confirmations that a `WAIT` behind a pipeline asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replication {
    /// How many replicas must confirm.
    pub(crate) replicas: u32,
    /// The number of replicas from which `replicas` was computed.
    pub(crate) of: u32,
    /// How long the server waits for the confirmations.
    pub(crate) timeout: Duration,
}

impl Replication {
    /// Returns the confirmations to wait for behind a request over `session`. `needs` computes
    /// their number from the number of replicas.
    pub(crate) fn of_session(
        session: &Session,
        needs: impl FnOnce(u32) -> u32,
        timeout: Duration,
    ) -> Self {
        let of = session.replicas();
        Self {
            replicas: needs(of),
            of,
            timeout,
        }
    }

    /// Returns the `WAIT` command.
    pub(super) fn command(self) -> Command {
        // A `WAIT` with time-out zero would block for ever.
        let timeout = whole_millis(self.timeout).max(1);
        Command::new("WAIT")
            .arg(self.replicas.to_string())
            .arg(timeout.to_string())
    }

    /// Returns an error if fewer replicas than required have confirmed.
    pub(super) fn check(self, confirmed: u32) -> Result<(), Error> {
        let needed = self.replicas;
        if confirmed >= needed {
            return Ok(());
        }
        let message = format!("{confirmed} replicas have confirmed it, {needed} were asked for");
        Err(Error::new(ErrorKind::NotEnoughReplicas, message).in_doubt())
    }

    /// Returns how many replicas have confirmed, or `None` if the number is unknown. Fails if too
    /// few have confirmed, or if the server refuses to wait for them.
    pub(crate) fn confirmed(
        self,
        confirmations: Option<Acknowledged>,
    ) -> Result<Option<u32>, Error> {
        match confirmations {
            Some(Acknowledged::By(confirmed)) => self.check(confirmed).map(|()| Some(confirmed)),
            Some(Acknowledged::Refused(error)) => Err(error.in_doubt()),
            Some(Acknowledged::Unknown) | None => Ok(None),
        }
    }
}

impl Acknowledged {
    /// Reads the answer of `session` to the `WAIT` behind calls that it has executed.
    pub(super) fn read(session: &Session, waited: Option<Outcome>) -> Self {
        match waited {
            Some(Outcome::Replied(Ok(count))) => {
                let count = count.as_int().and_then(|count| u32::try_from(count).ok());
                if let Some(replicas) = count {
                    session.saw_replicas(replicas);
                }
                count.map_or(Self::Unknown, Self::By)
            }
            Some(Outcome::Replied(Err(error))) => match classify(&error.code, &error.message) {
                _ if has_no_wait(&error) => Self::Refused(no_wait(error)),
                Class::Fatal(refusal) | Class::Halted(refusal) => {
                    Self::Refused(Error::refused(refusal, error))
                }
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    /// Combines the answers of two nodes, and keeps the weaker one.
    pub(super) fn or_fewer(self, other: Self) -> Self {
        match (self, other) {
            (Self::By(a), Self::By(b)) => Self::By(a.min(b)),
            (Self::Refused(error), _) | (_, Self::Refused(error)) => Self::Refused(error),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
        }
    }
}

/// Tells whether a server that executes requests never waits for replicas. The refusal of a
/// replica, which may have been a master, does not count.
fn has_no_wait(error: &ServerError) -> bool {
    let is_replica = error.message.contains("replica instances");
    let class = classify(&error.code, &error.message);
    rights::is_unknown_command(&error.message)
        || error.code == "ERR" && class == Class::Unknown && !is_replica
}

fn no_wait(error: ServerError) -> Error {
    let message = format!(
        "the server refuses WAIT, without which no replica can confirm; use Durability::Master, or another server: {error}"
    );
    Error::with_reason(ErrorKind::UnsupportedServer, message, error)
}

impl Durability {
    /// Returns the confirmations to wait for behind a request over `session`, if any.
    pub(crate) fn replication(self, session: &Session, timeout: Duration) -> Option<Replication> {
        self.waits()
            .then(|| Replication::of_session(session, |of| self.needs(of), timeout))
    }

    /// Returns the class of link for requests with this durability.
    pub(crate) const fn link_class(self) -> LinkClass {
        LinkClass::of(self.waits())
    }
}
