//! The requests of a line, and their answers.

use std::{convert::Infallible, sync::Arc, time::Duration};

use redlatch_core::{
    Error, ErrorKind, Moment,
    family::{Internals, Lease},
};
use tokio::{select, sync::oneshot};

use crate::{
    Admission, Pass, Refused,
    lines::{Asking, Batch, Call, Calls, Request, Turn, Until},
    rate::Terms,
    scripts::{self, Mark, Passed},
};

/// The answer to a call.
pub(crate) enum Answer {
    Taken(Taken),
    Refused(Refused),
    Settled,
}

/// A pass on its way to the caller. Dropping it gives the pass back.
pub(crate) struct Taken {
    pass: Option<Pass>,
    /// The time until the pass counts, from the answer on.
    pub(crate) wait: Duration,
    /// When the pass counts. The caller may read the answer late.
    pub(crate) due: Moment,
    /// Dropping it passes the turn of a waiter on, before its pass counts.
    _turn: Option<oneshot::Sender<Infallible>>,
}

impl Taken {
    /// Gives the pass back, which counts too late for its caller.
    pub(crate) fn refuse(self) -> Result<Admission, Error> {
        let (wait, pass) = (self.wait, self.pass.as_ref().ok_or_else(gone)?);
        // Nothing is given back without a mark.
        let Terms { rate, cost } = pass.terms;
        let back = pass.mark.map_or(0, |_| rate.span(cost));
        let debt = pass.debt.saturating_sub(back);
        Ok(Admission::Refused(Refused::new(pass.terms, debt, wait)))
    }

    /// Hands the pass to the caller.
    pub(crate) fn keep(mut self) -> Result<Pass, Error> {
        // Only this function takes it away.
        self.pass.take().ok_or_else(gone)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            pass.give_back();
        }
    }
}

/// The error of a call whose task has ended with the client.
pub(crate) fn gone() -> Error {
    let why = "the client is closed, or the tokio runtime in which this client was made has ended";
    Error::new(ErrorKind::Closed, why)
}

/// The receiver of an answer.
pub(crate) type Reply = oneshot::Receiver<Result<Answer, Error>>;

/// Creates a call, and the receiver of its answer.
pub(crate) fn call(request: Request, since: Moment) -> (Call, Reply) {
    let (caller, answer) = oneshot::channel();
    let call = Call {
        request,
        since,
        caller: Some(caller),
    };
    (call, answer)
}

/// Returns what a call has got.
pub(crate) async fn received(reply: Reply) -> Result<Answer, Error> {
    reply.await.unwrap_or_else(|_| Err(gone()))
}

impl Answer {
    pub(crate) fn admission(self) -> Result<Admission, Error> {
        match self {
            Self::Taken(taken) => taken.keep().map(Admission::Pass),
            Self::Refused(refused) => Ok(Admission::Refused(refused)),
            Self::Settled => Err(gone()),
        }
    }
}

impl Asking {
    pub(crate) async fn ask(&self, batch: Batch) {
        let Some((_, first)) = batch.calls.front() else {
            return;
        };
        let (limiter, request) = (&self.limiter, first.request);
        let answered = match request {
            Request::Take { terms, until } => {
                let wait = match until {
                    Until::Now => Duration::ZERO,
                    Until::At(at) => at.since(limiter.client.now()).min(Lease::MAX),
                    Until::Whenever => Lease::MAX,
                };
                let passes = batch.calls.len();
                let call = |id: &_| scripts::acquire(&limiter.key, id, terms, passes, wait);
                match limiter.client.change(call, scripts::acquired).await {
                    Ok(passed) => return self.hand_out(batch, terms, &passed),
                    Err(error) => Err(error),
                }
            }
            Request::Settle(settlement) => {
                let call = |id: &_| scripts::settle(&limiter.key, id, &settlement);
                limiter.client.change(call, scripts::settled).await
            }
        };
        if let Err(error) = &answered {
            self.fail_rest(error);
        }
        for (_, call) in batch.calls {
            call.answer(answered.clone().map(|_| Answer::Settled));
        }
    }

    /// Hands passes to those who have come first, and tells the others.
    fn hand_out(&self, mut batch: Batch, terms: Terms, passed: &Passed) {
        let mut turn = batch.turn.take();
        let waited = turn.is_some();
        let rest = batch.calls.split_off(passed.passes.min(batch.calls.len()));
        let last = batch.calls.len();
        let due = self.limiter.client.now() + passed.wait;
        for (at, (_, call)) in batch.calls.into_iter().enumerate() {
            // The debt of a pass ends before that of the later ones.
            let later = terms.rate.time(terms.cost * (last - at - 1) as u64);
            let mark = passed.mark.map(|mark| Mark {
                left: mark.left.saturating_sub_unsigned(later),
                ..mark
            });
            let pass = Pass {
                limiter: Arc::clone(&self.limiter),
                terms,
                debt: passed.debt,
                at: passed.at,
                mark,
            };
            call.answer(Ok(Answer::Taken(Taken {
                pass: Some(pass),
                wait: passed.wait,
                due,
                _turn: turn
                    .take_if(|_| !passed.wait.is_zero())
                    .map(|turn| self.keep(turn, passed.wait)),
            })));
        }
        self.refuse(rest, terms, passed, waited);
        drop(turn);
    }

    /// Keeps the turn of a waiter until its pass counts, whether the caller polls meanwhile or not,
    /// or until the returned value is dropped.
    fn keep(&self, turn: Turn, wait: Duration) -> oneshot::Sender<Infallible> {
        let (taken, gone) = oneshot::channel();
        let client = self.limiter.client.clone();
        let kept = async move {
            select! {
                biased;
                _ = gone => {}
                () = client.pause(wait) => {}
            }
            drop(turn);
        };
        self.limiter.client.spawn("limit", Box::pin(kept));
        taken
    }

    /// Refuses calls that ask at once, the first waiter if no call has passed, and waiters whose
    /// time is over. The other waiters ask again.
    fn refuse(&self, mut rest: Calls, terms: Terms, passed: &Passed, waited: bool) {
        let mut refused = rest;
        if waited {
            rest = refused.split_off(usize::from(passed.passes == 0));
            refused.extend(self.put_back(rest));
        }
        for (_, call) in refused {
            let refused = Refused::new(terms, passed.debt, passed.wait);
            call.answer(Ok(Answer::Refused(refused)));
        }
    }
}

impl Pass {
    /// Gives back the whole cost in the background.
    pub(crate) fn give_back(self) {
        let (limiter, request) = self.settlement(0);
        let call = Call {
            request,
            since: limiter.client.now(),
            caller: None,
        };
        limiter.ask_at_once(call);
    }
}
