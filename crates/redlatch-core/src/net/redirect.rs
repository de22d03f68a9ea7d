//! Sends on what another node is in charge of.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    Acknowledged, Limit, LinkClass, Router, Session,
    durable::Waiting,
    scout,
    sender::{self, Asking},
};
use crate::{
    Error,
    protocol::{
        classify::{Class, Obstacle, classify},
        time::Moment,
    },
    script::{CallOutcome, Failure, ScriptCall},
    seam::{Address, Command, ServerError, Value},
};

/// Where a call goes next.
type Place = (Address, Asking);

/// Goes on with `calls`, of which `outcomes` came from `session`: those that were redirected go to the node that was named, with `ASKING` where
/// the server says so; those of a slot on the move that are refused for the sake of keys they can do without go without them.
///
/// With `waiting` they go over durable links, and what comes second says who has confirmed them, once for each pipeline of which something was
/// executed.
///
/// None of these was executed, so that they go again with the same `by`. It is compared with the clock of the node that executes, and so is
/// the mark that an undo leaves; where clocks differ by more than a request may act ahead, the answer is `late` and the caller's next try
/// knows better.
pub(super) async fn follow(
    router: &Router,
    session: &Session,
    calls: &[&ScriptCall],
    by: u64,
    limit: Limit,
    mut outcomes: Vec<CallOutcome>,
    waiting: Option<Waiting<'_>>,
) -> (Vec<CallOutcome>, Vec<Acknowledged>) {
    let mut told = Vec::new();
    let mut calls: Vec<ScriptCall> = calls.iter().map(|&call| call.clone()).collect();
    for _ in 0..MAX_HOPS {
        let mut again: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (at, outcome) in outcomes.iter().enumerate() {
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
                let sent = send_to(router, &place, &calls, by, limit, waiting).await;
                (which, sent)
            }
        }));
        for (which, (answers, confirmed)) in sent.await {
            told.extend(confirmed);
            for (at, answer) in which.into_iter().zip(answers) {
                outcomes[at] = answer;
            }
        }
    }
    for outcome in &mut outcomes {
        conclude(router, session, outcome);
    }
    (outcomes, told)
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
        let outcome = sender::pipeline(&session, batch, limit, asking).await;
        let reply = session.reply(outcome.into_iter().next())?;
        let redirect = match &reply {
            Err(error) => match classify(&error.code, &error.message) {
                Class::Redirect(redirect) => redirect,
                _ => return session.value(reply),
            },
            Ok(_) => return session.value(reply),
        };
        let Some(address) = router.redirected(&session, &redirect) else {
            return session.value(reply);
        };
        asking = if redirect.once {
            Asking::Yes
        } else {
            Asking::No
        };
        session = router
            .session_at(&address, LinkClass::Command, until)
            .await?;
    }
    Err(scout::unavailable("a slot is on the move"))
}

/// Returns where a call goes after `outcome`, if anywhere.
fn next_place(
    router: &Router,
    session: &Session,
    call: &mut ScriptCall,
    outcome: &CallOutcome,
) -> Option<Place> {
    match outcome {
        CallOutcome::Failed(Failure::Redirected(redirect)) => {
            let asking = if redirect.once {
                Asking::Yes
            } else {
                Asking::No
            };
            Some((router.redirected(session, redirect)?, asking))
        }
        CallOutcome::Failed(Failure::Refused(_, error)) if error.code == "TRYAGAIN" => {
            *call = call.bare()?;
            Some((router.node(call.slot())?, Asking::No))
        }
        CallOutcome::Failed(_) | CallOutcome::Replied(_) => None,
    }
}

async fn send_to(
    router: &Router,
    (address, asking): &Place,
    calls: &[&ScriptCall],
    by: u64,
    limit: Limit,
    waiting: Option<Waiting<'_>>,
) -> (Vec<CallOutcome>, Option<Acknowledged>) {
    let until = limit.deadline.min(router.world.now() + limit.silence);
    let class = match waiting {
        Some(_) => LinkClass::Durable,
        None => LinkClass::Command,
    };
    match (router.session_at(address, class, until).await, waiting) {
        (Ok(session), Some(waiting)) => waiting.send(&session, calls, by, limit, *asking).await,
        (Ok(session), None) => {
            let outcomes = sender::send(&session, calls, by, limit, *asking).await;
            (outcomes, None)
        }
        (Err(error), _) => {
            let failure = CallOutcome::Failed(Failure::of_session(error));
            (vec![failure; calls.len()], None)
        }
    }
}

/// What is still redirected or refused is for the caller to try again later.
fn conclude(router: &Router, session: &Session, outcome: &mut CallOutcome) {
    match outcome {
        CallOutcome::Failed(Failure::Refused(obstacle, error)) => {
            router.doubted(session, *obstacle, error);
        }
        CallOutcome::Failed(Failure::Redirected(redirect)) if router.is_cluster() => {
            let message = format!("slot {} is on the move", redirect.slot);
            let error = ServerError::parse(&format!("TRYAGAIN {message}"));
            *outcome = CallOutcome::Failed(Failure::Refused(Obstacle::NotNow, error));
        }
        CallOutcome::Failed(_) | CallOutcome::Replied(_) => {}
    }
}

/// Redirections that are followed one after the other.
const MAX_HOPS: u32 = 5;
