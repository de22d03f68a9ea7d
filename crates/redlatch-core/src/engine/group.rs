//! One attempt to acquire several names of one kind with one script: all of them or none.
//!
//! The attempt never waits and never repeats its request. Names that it cannot acquire are acquired
//! one by one, by the loop that can wait. Its undo releases each name separately, all with the
//! attempt's single id.

use std::{pin::pin, sync::Arc};

use super::{
    AcquireOptions, Held, Wait,
    attempt::Attempt,
    hold::{Ahead, Asked, Granted},
};
use crate::{
    Client, Error, ErrorKind,
    base::{
        observe::{self, Labels},
        primitive::{AcquireRequest, AnswerForAll, Grant, Primitive},
        script::CallOutcome,
    },
    net::{Dispatch, Limit, Request},
    protocol::{remains::Trace, time::Moment},
};

/// The outcome of one attempt to acquire several names.
#[derive(Debug)]
pub enum Together {
    /// All are held.
    Granted(Vec<Held>),
    /// Another owner holds the name at this index, or is ahead of this one. None is held.
    Busy(usize),
    /// The names have to be acquired one by one. The background undoes anything that the attempt
    /// may have acquired.
    OneByOne,
}

impl Client {
    /// Acquires all of `primitives` with one script, or none. They must be of one kind and in one
    /// [place](Self::place). Sends one request, whatever the options say about waiting. Local
    /// waiters for any of the names go first, unless the caller does not wait at all.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any await, the background gives back everything that was taken.
    pub(crate) async fn acquire_together(
        &self,
        primitives: &[Arc<dyn Primitive>],
        options: &AcquireOptions,
    ) -> Result<Together, Error> {
        self.check_open()?;
        let asked = Asked::new(self, options)?;
        let _ticket = self.admit()?;
        let waited_for = |primitive: &Arc<dyn Primitive>| self.local_queues().has(primitive.key());
        if options.durability.waits()
            || options.wait != Wait::Never && primitives.iter().any(waited_for)
        {
            return Ok(Together::OneByOne);
        }
        for primitive in primitives {
            let holds = self.holds();
            holds.check_entry(primitive.as_ref(), &asked.owner)?;
        }
        let asking = pin!(ask(&asked, primitives));
        let together = self.unless_closing(asking).await?;
        if let Together::Granted(holds) = &together {
            // The caller may need more.
            holds.iter().for_each(Held::withhold);
        }
        // If the client began to close just before the grant, `close` may not have seen the holds.
        match (self.check_closing(), together) {
            (Err(closing), Together::Granted(holds)) => {
                holds.into_iter().for_each(Held::take_back);
                Err(closing)
            }
            (_, together) => Ok(together),
        }
    }
}

/// Sends the one request and processes its reply.
async fn ask(asked: &Asked<'_>, primitives: &[Arc<dyn Primitive>]) -> Result<Together, Error> {
    let (client, options) = (asked.client, asked.options);
    let Some(first) = primitives.first() else {
        return Ok(Together::Granted(Vec::new()));
    };
    let id = client.draw_attempt();
    let attempt = |primitive| {
        // Nothing notifies it.
        let silent = (true, None);
        Attempt::new(asked, primitive, id.clone(), silent)
    };
    let mut attempts: Vec<_> = primitives.iter().map(attempt).collect();
    let keys: Vec<_> = primitives.iter().map(|one| one.key()).collect();
    let request = AcquireRequest {
        owner: &asked.owner,
        attempt: &id,
        lease: client.lease_on_server(asked.lease.span()),
        retention: client.0.retention,
        address: None,
        register: None,
    };
    let Some(call) = first.acquire_all(&keys, &request) else {
        return Ok(Together::OneByOne);
    };
    let net = client.net();
    net.check_away(call.slot())?;
    let silence = asked.lease.attempt_timeout();
    let waits = match options.wait {
        Wait::For(wait) => wait.min(silence),
        _ => silence,
    };
    let deadline = client.now() + waits;
    let class = options.durability.link_class();
    for key in keys {
        client.let_go_first(key, class, deadline).await;
    }
    let Ok(session) = net.router.session(call.slot(), class, deadline).await else {
        return Ok(Together::OneByOne);
    };
    let started = client.now();
    let act_before = client.act_before(&session, started);
    for attempt in &mut attempts {
        attempt.remains.sending(act_before, false);
    }
    let request = Request {
        calls: &[&call],
        act_before,
        limit: Limit { silence, deadline },
        replication: None,
        dispatch: Dispatch::AtOnce,
        checked: None,
    };
    let (outcome, _) = net.send(&session, &request).await.into_single();
    Ok(match answer(first.as_ref(), &mut attempts, outcome)? {
        AnswerForAll::Granted(grants) => granted(asked, primitives, attempts, &grants, started),
        AnswerForAll::Busy(at) => Together::Busy(at),
        AnswerForAll::Refused => Together::OneByOne,
    })
}

/// Delivers the grants, unless the reply took so long that a lease may have ended.
fn granted(
    asked: &Asked<'_>,
    primitives: &[Arc<dyn Primitive>],
    mut attempts: Vec<Attempt>,
    grants: &[Grant],
    started: Moment,
) -> Together {
    attempts
        .iter_mut()
        .for_each(|attempt| attempt.remains.granted());
    let now = asked.client.now();
    let lasts = |grant| asked.client.believed(grant, asked.lease, started, now);
    let Some(lasts) = grants.iter().map(lasts).collect::<Option<Vec<_>>>() else {
        return Together::OneByOne;
    };
    let granted = primitives.iter().zip(&mut attempts);
    let granted = granted.zip(grants.iter().zip(lasts));
    let holds = granted.map(|((primitive, attempt), (&grant, lasts))| {
        let granted = Granted {
            asked,
            primitive,
            grant,
            delivered: attempt.deliver(),
            lasts,
            ahead: Ahead::No,
        };
        let held = Held::enter(&granted, now, 0);
        observe::acquired(&Labels::of(primitive.as_ref()), now - started, 1, false);
        held
    });
    Together::Granted(holds.collect())
}

/// Reads the outcome of the request. Disarms the attempts unless the request may still act.
fn answer(
    first: &dyn Primitive,
    attempts: &mut [Attempt],
    outcome: CallOutcome,
) -> Result<AnswerForAll, Error> {
    let reply = match outcome {
        CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => reply,
        CallOutcome::Failed(failure) => {
            let effect = failure.effect();
            attempts
                .iter_mut()
                .for_each(|attempt| attempt.remains.failed(effect));
            return Ok(AnswerForAll::Refused);
        }
    };
    let answer = first.acquired_all(attempts.len(), &reply);
    // An unreadable reply may have been a grant, so the attempts stay armed.
    if !matches!(&answer, Err(error) if error.kind() == ErrorKind::Protocol) {
        // The server records a busy attempt without an address. The other answers come to all.
        let trace = match &answer {
            Ok(AnswerForAll::Refused) => Trace::Left,
            _ => Trace::None,
        };
        attempts
            .iter_mut()
            .for_each(|attempt| attempt.remains.answered(trace));
    }
    answer
}
