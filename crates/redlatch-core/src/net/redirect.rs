//! Follows redirections to other nodes.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    Acknowledged, Limit, LinkClass, Router, Session,
    sender::{self, Asking, Request, Response},
};
use crate::{
    Error,
    base::{
        rules::Rule,
        script::{CallOutcome, Failure, ScriptCall},
    },
    protocol::{
        classify::{Class, Obstacle, Redirect, classify},
        remains::Effect,
        time::Moment,
    },
    runtime::{Address, Command, ServerError, Value},
};

/// The next target of a call.
type Place = (Address, Asking);

/// Continues the calls of `request`, to which `session` has responded with `response`.
///
/// A redirected call goes to the named node, with `ASKING` if the server says so. During a slot
/// migration a node refuses a call with `TRYAGAIN` if some of its keys have moved. Such a call is
/// sent again without the keys that it can do without.
///
/// Calls that wait for replicas use durable links. The result is the smallest number of
/// confirmations that any node reported.
///
/// No redirected call was executed, so it is sent again with the same `act_before`. The executing
/// node compares that limit with its own clock, and does the same with the mark of an undo. If two
/// clocks differ by more than a request may act ahead, the answer is `late`, and the caller's next
/// try uses the right clock.
pub(super) async fn follow(
    router: &Router,
    session: &Session,
    request: &Request<'_>,
    mut response: Response,
) -> Response {
    let mut before = Effect::Nothing;
    let mut calls: Vec<ScriptCall> = request.calls.iter().map(|&call| call.clone()).collect();
    for _ in 0..MAX_HOPS {
        // Each round sends the redirected calls, grouped by target.
        let mut again: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (at, outcome) in response.outcomes.iter().enumerate() {
            if let Some(place) = next_place(router, session, &mut calls[at], outcome) {
                again.entry(place).or_default().push(at);
            }
        }
        if again.is_empty() {
            break;
        }
        let sent = join_all(again.into_iter().map(|(place, which)| {
            let calls: Vec<_> = which.iter().map(|&at| &calls[at]).collect();
            async move {
                let calls = calls.as_slice();
                let request = Request {
                    calls,
                    checked: None,
                    ..*request
                };
                let sent = send_to(router, &place, &request).await;
                (which, sent)
            }
        }));
        for (which, there) in sent.await {
            let known = response.acknowledged.into_iter();
            let known = known.chain(there.acknowledged);
            response.acknowledged = known.reduce(Acknowledged::or_fewer);
            if there.before != Effect::Nothing {
                before = there.before;
            }
            for (at, answer) in which.into_iter().zip(there.outcomes) {
                response.outcomes[at] = answer;
            }
        }
    }
    for (outcome, call) in response.outcomes.iter_mut().zip(&calls) {
        conclude(router, session, call, outcome);
    }
    if response.before == Effect::Nothing {
        response.before = before;
    }
    response
}

/// Sends one plain command that may be repeated, and follows redirections.
pub(super) async fn ask(
    router: &Router,
    session: Arc<Session>,
    command: &Command,
    until: Moment,
) -> Result<Value, Error> {
    let (mut session, mut asking) = (session, Asking::No);
    for _ in 0..MAX_HOPS {
        let limit = Limit {
            silence: until - router.world.now(),
            deadline: until,
        };
        let batch = vec![command.clone()];
        let outcomes = sender::pipeline(&session, batch, limit, asking, None).await;
        let reply = session.reply(outcomes)?;
        let error = reply.as_ref().err();
        let class = error.map(|error| classify(&error.code, &error.message));
        let redirect = match (class, error) {
            (Some(Class::Redirect(redirect)), _) => redirect,
            (Some(Class::Retry(obstacle)), Some(error)) => {
                // A client may look at a replica, and then only its own record is refused.
                if obstacle != Obstacle::ReadOnly {
                    router.doubted(&session, obstacle, error);
                }
                return session.value(reply);
            }
            _ => return session.value(reply),
        };
        let Some(address) = router.redirected(&session, &redirect) else {
            return session.value(reply);
        };
        asking = asking_for(router, &redirect);
        session = router
            .session_at(&address, LinkClass::Command, until)
            .await?;
    }
    Err(Error::unavailable("a slot is on the move"))
}

/// Returns the next target of a call after `outcome`, if any.
fn next_place(
    router: &Router,
    session: &Session,
    call: &mut ScriptCall,
    outcome: &CallOutcome,
) -> Option<Place> {
    match outcome {
        CallOutcome::Failed(Failure::Redirected(redirect)) => {
            let address = router.redirected(session, redirect)?;
            Some((address, asking_for(router, redirect)))
        }
        CallOutcome::Failed(Failure::Refused(_, error)) if error.code == "TRYAGAIN" => {
            *call = call.bare()?;
            Some((router.node(call.slot())?, Asking::No))
        }
        CallOutcome::Failed(_) | CallOutcome::Replied(_) | CallOutcome::Bare(_) => None,
    }
}

/// Tells whether `ASKING` precedes what is redirected.
fn asking_for(router: &Router, redirect: &Redirect) -> Asking {
    if redirect.once && router.world.rules.keeps(Rule::SendAsking) {
        Asking::Yes
    } else {
        Asking::No
    }
}

async fn send_to(router: &Router, (address, asking): &Place, request: &Request<'_>) -> Response {
    let limit = request.whole_limit();
    let until = limit.deadline.min(router.world.now() + limit.silence);
    let class = LinkClass::of(request.replication.is_some());
    let session = match router.session_at(address, class, until).await {
        Ok(session) => session,
        Err(error) => {
            let failure = CallOutcome::Failed(Failure::of_session(error));
            return Response::unconfirmed(vec![failure; request.calls.len()]);
        }
    };
    let mut response = sender::send(&session, request, *asking).await;
    let replication = request.replication;
    if replication.is_some_and(|wanted| session.replicas() > wanted.of) {
        // The required share of more replicas is a larger number.
        response.acknowledged = response.acknowledged.map(|_| Acknowledged::Unknown);
    }
    response
}

/// Turns a remaining redirection or refusal into a failure that the caller may retry later. Marks
/// the reply to a call without its optional keys.
fn conclude(router: &Router, session: &Session, call: &ScriptCall, outcome: &mut CallOutcome) {
    match outcome {
        CallOutcome::Failed(Failure::Refused(obstacle, error)) => {
            router.doubted(session, *obstacle, error);
        }
        CallOutcome::Failed(Failure::Redirected(redirect)) if router.is_cluster() => {
            let message = format!("slot {} is on the move", redirect.slot);
            let error = ServerError::parse(&format!("TRYAGAIN {message}"));
            *outcome = CallOutcome::Failed(Failure::Refused(Obstacle::NotNow, error));
        }
        CallOutcome::Replied(reply) if call.is_bare() => {
            *outcome = CallOutcome::Bare(std::mem::replace(reply, Value::Nil));
        }
        CallOutcome::Failed(_) | CallOutcome::Replied(_) | CallOutcome::Bare(_) => {}
    }
}

/// Maximum number of consecutive redirections.
const MAX_HOPS: u32 = 5;
