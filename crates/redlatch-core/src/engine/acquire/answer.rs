//! Processes the outcome of a request of an acquisition: a reply, or a failure.

use std::{sync::Arc, time::Duration};

use super::Run;
use crate::{
    Error, ErrorKind,
    base::{
        observe::{self, Labels},
        primitive::{Answer, Grant},
        rules::Rule,
        script::{CallOutcome, Failure},
    },
    engine::{
        Held, QueueSlot,
        hold::{Ahead, Granted, caller},
    },
    net::Session,
    protocol::{
        remains::Trace,
        time::Moment,
        waiter::{self, Busy, End, Prompt, Restart, Subscription},
    },
};

/// The reason why there is no clear answer.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The error of the last request.
    last: Option<Error>,
    /// Whether the server may have executed a request without a reply.
    pub(super) in_doubt: bool,
}

impl Trouble {
    /// Records that the attempt was replaced by a fresh one.
    pub(super) fn restarted(&mut self, restart: Restart) {
        self.last = Some(Error::unavailable(restart.to_string()));
    }

    fn take(&mut self) -> Error {
        let unanswered = || Error::unavailable("the server did not answer in time");
        let error = self.last.take().unwrap_or_else(unanswered);
        if self.in_doubt {
            error.in_doubt()
        } else {
            error
        }
    }
}

impl Run<'_> {
    /// Processes the outcome of a request that was sent at `sent`, and the confirmations of its
    /// replicas. Returns the guard if the server granted it.
    pub(super) fn heard(
        &mut self,
        outcome: CallOutcome,
        acknowledged: Result<Option<u32>, Error>,
        session: &Arc<Session>,
        sent: Moment,
    ) -> Result<Option<Held>, Error> {
        let reply = match outcome {
            CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => reply,
            CallOutcome::Failed(failure) => return self.unanswered(failure),
        };
        self.anchor(&reply, session, sent);
        let answer = self.primitive.acquired(&reply);
        // An unreadable reply may have been a grant, so the attempt stays armed.
        if !matches!(&answer, Err(error) if error.kind() == ErrorKind::Protocol) {
            let trace = self.trace(&answer);
            self.attempt.remains.answered(trace);
        }
        if answer.is_err() && self.waiter.has_waited() {
            // Whatever ended this wait may end those of the others.
            self.prompt_others(Some(Prompt::Requeue));
        }
        let answer = answer?;
        let acknowledged = match acknowledged {
            _ if !matches!(answer, Answer::Granted(_)) => 0,
            Ok(Some(replicas)) => replicas,
            Err(_) if !self.client.keeps(Rule::RefuseShortfall) => 0,
            Ok(None) if !self.client.keeps(Rule::KnowConfirmations) => 0,
            confirmed => {
                self.attempt.remains.granted();
                confirmed?;
                // The server has granted the request, but the number of confirmations is unknown.
                // The next request writes again, and that write can be waited for.
                self.trouble.in_doubt = true;
                let message = "nobody knows which replicas have confirmed it";
                self.trouble.last = Some(Error::new(ErrorKind::OutcomeUnknown, message));
                self.waiter.on_failed();
                return Ok(None);
            }
        };
        Ok(self.answered(answer, sent, acknowledged))
    }

    /// Processes a request that the script has not answered.
    fn unanswered(&mut self, failure: Failure) -> Result<Option<Held>, Error> {
        self.attempt.remains.failed(failure.effect());
        if matches!(failure, Failure::Unknown(_))
            && self.waiter.on_cut_off(self.begun, self.client.now())
        {
            self.client.check_process()?;
            if !self.client.keeps(Rule::UndoCutOff) {
                self.attempt.deliver();
            }
            return Ok(None);
        }
        self.trouble.in_doubt |= !failure.is_not_executed();
        self.failed(failure)
    }

    /// Tells whether a copy of the answered request could act. The server refuses those of an
    /// attempt that ends with a busy answer, since the call had no address.
    fn trace(&self, answer: &Result<Answer, Error>) -> Trace {
        match answer {
            Ok(Answer::Busy { .. }) if self.queue_slot.is_none() => Trace::None,
            Ok(Answer::Late | Answer::Void) => Trace::None,
            Err(error) if error.kind() == ErrorKind::WrongKind => Trace::None,
            _ => Trace::Left,
        }
    }

    fn answered(&mut self, answer: Answer, sent: Moment, acknowledged: u32) -> Option<Held> {
        let now = self.client.now();
        self.trouble.last = None;
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.heard(now);
        }
        match answer {
            Answer::Granted(grant) => return self.granted(grant, sent, now, acknowledged),
            Answer::Busy {
                remaining,
                holder,
                called,
                entered,
                beside,
            } => {
                if let Some(attempt) = called.filter(|_| self.queue_slot.is_some()) {
                    self.pass_on(attempt);
                }
                let subscription = if self.listens {
                    self.attempt.subscription()
                } else {
                    Subscription::Inactive
                };
                let busy = Busy {
                    remaining,
                    subscription,
                    entered,
                    beside,
                    owner_holds: self.holds(),
                };
                let prompt = self.waiter.on_busy(now, busy);
                self.prompt_others(prompt);
                self.blocked_by(&holder, now);
            }
            Answer::Late => {
                let why = "the server gets requests too late to act";
                self.trouble.last = Some(Error::unavailable(why));
                self.waiter.on_late(now);
            }
            Answer::Unfinished => self.waiter.on_unfinished(now),
            Answer::Void => {
                if self.waiter.on_void(now) > 1 {
                    // A copy of this machine may be ahead.
                    self.client.net().world.life.leap();
                }
            }
        }
        None
    }

    /// Tells the waiter of this client that sends `attempt` that its turn has come. If there is no
    /// such waiter, queues the withdrawal of its entry.
    fn pass_on(&self, attempt: u64) {
        let key = self.primitive.key();
        // This waiter learns of its own turn from the reply. An attempt that holds needs no word.
        if attempt != self.attempt.id.number()
            && !self.client.local_queues().pass_on(key, attempt, None)
            && !self.client.holds().has_attempt(key, attempt)
        {
            let call = format!("{key} {attempt}");
            self.client.net().world.strays.add(call.into());
        }
    }

    /// Delivers the grant, unless the reply took so long that the lease may have ended.
    fn granted(
        &mut self,
        grant: Grant,
        sent: Moment,
        now: Moment,
        acknowledged: u32,
    ) -> Option<Held> {
        self.attempt.remains.granted();
        let Some(lasts) = self.client.believed(&grant, self.asked.lease, sent, now) else {
            self.trouble.in_doubt = true;
            self.waiter.on_grant_expired();
            return None;
        };
        Some(self.deliver(grant, lasts, now, acknowledged, Ahead::No))
    }

    /// Delivers a grant that `lasts` for some time from a moment on, as the holder counts it.
    pub(super) fn deliver(
        &mut self,
        grant: Grant,
        lasts: (Moment, Duration),
        now: Moment,
        acknowledged: u32,
        ahead: Ahead,
    ) -> Held {
        let prompt = self.waiter.on_granted(waiter::Granted {
            unqueued: grant.unqueued,
            has_copies: self.attempt.remains.has_copies(),
        });
        let granted = Granted {
            asked: &self.asked,
            primitive: self.primitive,
            grant,
            delivered: self.attempt.deliver(),
            lasts,
            ahead,
        };
        let held = Held::enter(&granted, now, acknowledged);
        self.prompt_others(prompt);
        let labels = Labels::of(self.primitive.as_ref());
        let (wait, waited) = (now - self.log.started, self.waiter.has_waited());
        observe::acquired(&labels, wait, self.log.requests, waited);
        held
    }

    /// Tells every other waiter of the local queue to ask the server.
    fn prompt_others(&self, prompt: Option<Prompt>) {
        if let (Some(queue_slot), Some(prompt)) = (&self.queue_slot, prompt) {
            queue_slot.prompt_others(prompt);
        }
    }

    pub(super) fn failed(&mut self, failure: Failure) -> Result<Option<Held>, Error> {
        self.client.check_process()?;
        let fatal = failure.is_final() || matches!(failure, Failure::Redirected(_));
        let error = failure.into_error(self.trouble.in_doubt);
        if fatal {
            return Err(error);
        }
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.troubled(&error);
        }
        if !self.client.keeps(Rule::ResendSameId) {
            self.attempt.deliver();
            self.attempt = self.fresh_attempt();
        }
        self.trouble.last = Some(error);
        self.waiter.on_failed();
        Ok(None)
    }

    /// Records who holds the name. Tells once of a long wait for it, and warns if this task seems
    /// to wait for itself.
    fn blocked_by(&mut self, holder: &str, now: Moment) {
        if !self.log.blocked && !holder.is_empty() {
            self.log.blocked = true;
            observe::blocked(&self.log.span, holder);
        }
        if self.log.warn_at.is_none_or(|warn_at| now < warn_at) {
            return;
        }
        self.log.warn_at = None;
        let labels = Labels::of(self.primitive.as_ref());
        let name = self.primitive.name();
        let (holds, this) = (self.client.holds().of(self.primitive.key()), caller());
        let mut own = holds.iter().filter(|hold| hold.acquirer == this);
        if own.any(|hold| hold.owner.to_string() == holder) {
            observe::waits_for_itself(&labels, name, holder);
        } else {
            let waited = now - self.log.started;
            self.client.tell_long_wait(labels, name, holder, waited);
        }
    }

    /// Returns the caller's result for an end without a grant.
    pub(super) fn ended(&mut self, end: End) -> Result<Option<Held>, Error> {
        match end {
            End::Busy => Ok(None),
            End::Unanswered => Err(self.trouble.take()),
            End::QueueUnanswered => Err(self.queue_unanswered()),
        }
    }

    /// Returns the error of a waiter that has never asked the server itself.
    fn queue_unanswered(&self) -> Error {
        let trouble = self.queue_slot.as_ref().and_then(QueueSlot::trouble);
        let why = trouble.map_or_else(
            || "the server has not answered yet".to_owned(),
            |error| error.to_string(),
        );
        Error::unavailable(format!(
            "a waiter of this process before this one gets no answer: {why}"
        ))
    }
}
