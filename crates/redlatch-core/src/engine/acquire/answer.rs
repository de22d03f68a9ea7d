//! What becomes of an acquisition when a request was answered, or was not.

use std::{sync::Arc, time::Duration};

use super::Run;
use crate::{
    Error, ErrorKind,
    engine::{Held, Hold, attempt::Attempt, ears::Ears, hold::Granted, turns::Call},
    observe::{self, Labels},
    owner::ClientId,
    primitive::{Answer, Grant},
    protocol::{
        hold::{HoldState, LocalLease},
        time::Moment,
    },
    rules::Rule,
    script::{CallOutcome, Failure},
    timeouts,
};

impl Run<'_> {
    /// Goes on from what became of a request that was sent at `sent`, and of its replicas' confirmation; returns the guard if it was granted.
    pub(super) fn heard(
        &mut self,
        outcome: CallOutcome,
        acknowledged: Result<Option<u32>, Error>,
        sent: Moment,
    ) -> Result<Option<Held>, Error> {
        match outcome {
            CallOutcome::Replied(reply) => {
                let answer = self.primitive.acquired(&reply);
                // A reply that cannot be read may have been a grant: the attempt stays armed.
                if !matches!(&answer, Err(error) if error.kind() == ErrorKind::Protocol) {
                    self.attempt.answered();
                }
                let answer = answer?;
                let acknowledged = match (&answer, acknowledged) {
                    (Answer::Granted(_), Ok(Some(replicas))) => replicas,
                    (Answer::Granted(_), told) => {
                        self.attempt.granted();
                        told?;
                        // It was taken, whatever becomes of it. Sent again it writes again, and that can be waited for.
                        self.unknown = true;
                        let message = "nobody knows which replicas have confirmed it";
                        self.trouble = Some(Error::new(ErrorKind::OutcomeUnknown, message));
                        self.machine.on_failed();
                        return Ok(None);
                    }
                    _ => 0,
                };
                Ok(self.answered(answer, sent, acknowledged))
            }
            CallOutcome::Failed(failure) => {
                if failure.is_not_executed() {
                    self.attempt.answered();
                } else {
                    self.unknown = true;
                }
                self.failed(failure).map(|()| None)
            }
        }
    }

    fn answered(&mut self, answer: Answer, sent: Moment, acknowledged: u32) -> Option<Held> {
        let now = self.client.now();
        self.trouble = None;
        if let Some(place) = &self.place {
            place.heard(now);
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
                self.contended = true;
                if let Some(place) = &self.place {
                    if let Some(attempt) = called {
                        self.pass_on(attempt);
                    }
                    if entered && self.queued && !self.recalled {
                        // It had a place and lost it, and so may have the others: each asks for a new one.
                        place.call_all(Call::Again);
                    }
                    // The server may know its owner for a holder for longer than the owner does.
                    self.queued = self.is_queued() && !beside;
                    self.recalled = false;
                }
                self.excused = self.holds();
                let listening = self.ears.are_open() && self.hears();
                self.machine.on_busy(now, remaining, listening);
                self.warn_of_itself(&holder, now);
            }
            Answer::Late => {
                self.trouble = Some(Error::new(
                    ErrorKind::Unavailable,
                    "the server gets requests too late to act",
                ));
                self.machine.on_late(now);
            }
            Answer::Unfinished => self.machine.on_unfinished(now),
            Answer::Void => self.start_over("the attempt had been undone"),
        }
        None
    }

    /// Tells the waiter of this client that asks with `attempt` that its turn has come. If there is none, its entry is to be withdrawn.
    fn pass_on(&self, attempt: u64) {
        let key = self.primitive.key();
        // Its own turn it takes by the answer.
        if attempt != self.attempt.id().number() && !self.client.turns().pass_on(key, attempt) {
            let call = format!("{key} {attempt}");
            self.client.net().world.strays.add(call.into());
        }
    }

    /// Delivers the grant, unless its reply took so long that the lease may have ended.
    fn granted(
        &mut self,
        grant: Grant,
        sent: Moment,
        now: Moment,
        acknowledged: u32,
    ) -> Option<Held> {
        self.attempt.granted();
        let sent = if self.client.keeps(Rule::CountFromSend) {
            sent
        } else {
            now
        };
        let span = self.client.believed(&grant, self.lease);
        let mut local_lease = LocalLease::new(self.client.trust(), sent, span);
        if let HoldState::Lost(_) = local_lease.state(now) {
            self.unknown = true;
            self.start_over("the reply came after the lease could have ended");
            return None;
        }
        if let Some(place) = self
            .place
            .as_ref()
            .filter(|_| grant.unqueued && self.queued && !self.recalled)
            // Another copy of this may have taken the grant, and the place.
            .filter(|_| !self.attempt.has_copies())
        {
            place.call_all(Call::Again);
        }
        self.machine.on_granted();
        let delivered = self.attempt.deliver();
        let granted = Granted {
            primitive: self.primitive,
            owner: &self.owner,
            token: grant.token,
            serial: grant.serial,
            delivered: &delivered,
            lease: self.lease,
            span,
            max_hold: self.options.max_hold,
            durability: self.options.durability,
            sent,
        };
        let hold = Hold::enter(self.client, &granted, now);
        let labels = Labels::of(self.primitive.as_ref());
        if let Some(place) = self
            .place
            .as_ref()
            .filter(|_| self.is_shared() && self.contended && !self.told)
        {
            // It found the way open by looking: the message to all may have been lost.
            place.call_all(Call::Now);
        }
        observe::acquired(&labels, now - self.started, self.requests, self.contended);
        Some(Held::new(hold, &delivered, grant, acknowledged))
    }

    /// Gives this attempt up and goes on with a fresh one; dropping it undoes it.
    fn start_over(&mut self, why: &str) {
        let fresh = self.fresh_attempt();
        if !Arc::ptr_eq(fresh.wakes(), self.attempt.wakes()) {
            // Its shard has got another channel.
            self.ears = Ears::default();
        } else if self.is_queued() {
            // A call names the attempt.
            self.ears.close();
        }
        self.queued = false;
        self.attempt = fresh;
        if let Some(place) = &self.place {
            place.asks_with(self.attempt.id().number(), self.attempt.called_by());
        }
        self.trouble = Some(Error::new(ErrorKind::Unavailable, why));
        self.machine.on_failed();
    }

    fn fresh_attempt(&self) -> Attempt {
        Attempt::new(
            self.client,
            self.primitive,
            &self.owner,
            self.lease.span(),
            self.strategy,
        )
    }

    pub(super) fn failed(&mut self, failure: Failure) -> Result<(), Error> {
        self.client.check_process()?;
        let fatal = matches!(failure, Failure::Fatal(_) | Failure::Redirected(_));
        let error = failure.into_error(self.unknown);
        if fatal {
            return Err(error);
        }
        if let Some(place) = &self.place {
            place.troubled(&error);
        }
        if !self.client.keeps(Rule::ResendSameId) {
            self.attempt.deliver();
            self.attempt = self.fresh_attempt();
        }
        self.trouble = Some(error);
        self.machine.on_failed();
        Ok(())
    }

    /// Says so once when this client seems to wait for itself.
    fn warn_of_itself(&mut self, holder: &str, now: Moment) {
        let own = ClientId::of_owner(holder).is_some_and(|client| client == *self.owner.client());
        if own && !self.warned && now - self.started >= SELF_WAIT {
            self.warned = true;
            let labels = Labels::of(self.primitive.as_ref());
            observe::waits_for_itself(&labels, self.primitive.name(), holder);
        }
    }
}

/// Waiting so long for a name that another owner of the same client holds is worth a warning.
const SELF_WAIT: Duration = timeouts::SELF_WAIT;
