//! The network side of a client, and the repetition of requests.

use std::{sync::Arc, time::Duration};

use super::{
    Acknowledged, Checked, Hub, Limit, LinkClass, Replication, Router, Session, WakeRoutes, World,
    redirect,
    sender::{self, Asking, Dispatch, Request, Response},
};
use crate::{
    Error,
    base::{
        script::{CallOutcome, Failure, ScriptCall},
        timeouts,
    },
    protocol::{classify::is_script_error, remains::Effect, time::Moment},
    runtime::{Command, Value},
};

/// The network side of a client.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) world: World,
    pub(crate) router: Arc<Router>,
    /// Receives the broadcast messages for all waiters of one name.
    pub(crate) hub: Arc<Hub>,
    /// Receives the notifications for this client.
    pub(crate) wakes: WakeRoutes,
    /// After how long without a connection calls are refused.
    pub(crate) fail_fast: Option<Duration>,
}

impl Net {
    /// Sends `request`, and follows redirections of its calls to other nodes.
    pub(crate) async fn send(&self, session: &Session, request: &Request<'_>) -> Response {
        let here = self.send_once(session, request).await;
        if here.outcomes.iter().all(is_settled) {
            return here;
        }
        Box::pin(redirect::follow(&self.router, session, request, here)).await
    }

    /// Sends `request` to this node only. [`settle`](Self::settle) continues with its redirected
    /// and refused calls.
    pub(crate) fn send_once(
        &self,
        session: &Session,
        request: &Request<'_>,
    ) -> impl Future<Output = Response> {
        sender::send(session, request, Asking::No)
    }

    /// Continues with the calls of `request` that are redirected or refused according to
    /// `outcomes`.
    pub(crate) fn settle(
        &self,
        session: &Session,
        request: &Request<'_>,
        outcomes: Vec<CallOutcome>,
    ) -> impl Future<Output = Response> {
        let here = Response::unconfirmed(outcomes);
        redirect::follow(&self.router, session, request, here)
    }

    /// Repeats one idempotent call until its script has replied, and until the confirmations of
    /// replicas are known if the call needs any.
    pub(crate) async fn insist(&self, mut repeated: Repeated<'_>) -> Result<Answered, Error> {
        let mut tries = Tries::default();
        loop {
            match repeated.checked {
                Some(_) => self.world.life.check_ended()?,
                None => self.world.life.check_all()?,
            }
            let (response, wanted) = self.try_once(&repeated).await;
            repeated.checked = None;
            // A list that was refused may have executed the call.
            tries.unknown |= response.before != Effect::Nothing;
            let (outcome, confirmations) = response.into_single();
            let bare = matches!(outcome, CallOutcome::Bare(_));
            let failure = match outcome {
                CallOutcome::Failed(failure) => failure,
                CallOutcome::Replied(reply) | CallOutcome::Bare(reply) => {
                    let confirmed = match (wanted, confirmations) {
                        (None, _) => Some(Ok(())),
                        (Some(wanted), Some(Acknowledged::By(count))) => Some(wanted.check(count)),
                        (Some(_), Some(Acknowledged::Refused(error))) => {
                            return Err(error.in_doubt());
                        }
                        (Some(_), Some(Acknowledged::Unknown) | None) => None,
                    };
                    if let Some(confirmed) = confirmed {
                        return Ok(Answered {
                            reply,
                            resent: tries.unknown,
                            bare,
                            confirmed,
                        });
                    }
                    Failure::Unknown("nobody knows which replicas have confirmed it".to_owned())
                }
            };
            tries.failed(&self.world, &mut repeated, failure).await?;
        }
    }

    /// Repeats one plain command until it is answered or until `deadline`. The server may run it
    /// more than once.
    pub(crate) async fn ask(
        &self,
        slot: u16,
        command: Command,
        deadline: Moment,
    ) -> Result<Value, Error> {
        let mut failures = 0;
        loop {
            self.world.life.check_all()?;
            self.check_away(slot)?;
            let until = deadline.min(self.world.now() + timeouts::PLAIN_COMMAND);
            let result = match self.router.session(slot, LinkClass::Command, until).await {
                Ok(session) => redirect::ask(&self.router, session, &command, until).await,
                Err(error) => Err(error),
            };
            let error = match result {
                Err(error) if error.is_transient() => error,
                result => return result,
            };
            self.world.life.check_process()?;
            failures += 1;
            let next = self.world.now()
                + timeouts::REQUEST_RETRY.delay(failures, self.world.runtime.random());
            if next >= deadline {
                return Err(error);
            }
            self.world.alarm(next).await;
        }
    }

    /// Takes a reference, since each copy would make the future of a release larger.
    async fn try_once(&self, repeated: &Repeated<'_>) -> (Response, Option<Replication>) {
        let failed = |failure| {
            let outcome = CallOutcome::Failed(failure);
            (Response::unconfirmed(vec![outcome]), None)
        };
        let (call, timeout) = (repeated.call, repeated.timeout);
        if repeated.fails_fast
            && let Err(error) = self.check_away(call.slot())
        {
            return failed(Failure::Fatal(error));
        }
        let mut checked = repeated.checked;
        let class = LinkClass::of(repeated.needs.is_some());
        let now = checked.unwrap_or_else(|| self.world.now());
        let session = match self.router.up(call.slot(), class) {
            Some(session) => session,
            None => {
                checked = None;
                let until = repeated.deadline.min(now + timeout);
                match Box::pin(self.router.session(call.slot(), class, until)).await {
                    Ok(session) => session,
                    Err(error) => return failed(Failure::of_session(error)),
                }
            }
        };
        let replication = repeated
            .needs
            .map(|needs| Replication::of_session(&session, needs, timeout));
        let request = Request {
            calls: &[call],
            act_before: session.act_before(checked.unwrap_or_else(|| self.world.now())),
            limit: Limit {
                silence: timeout,
                deadline: repeated.deadline,
            },
            replication,
            dispatch: Dispatch::Together,
            checked,
        };
        (self.send(&session, &request).await, request.replication)
    }
}

/// One idempotent call that is repeated until its script has replied.
#[derive(Clone, Copy)]
pub(crate) struct Repeated<'a> {
    pub(crate) call: &'a ScriptCall,
    /// How long each try waits for its answer, and then for replicas.
    pub(crate) timeout: Duration,
    /// When the last try ends.
    pub(crate) deadline: Moment,
    /// For the first try.
    pub(crate) checked: Checked,
    /// Returns how many of the given number of replicas must confirm. `None` asks for no
    /// confirmation.
    pub(crate) needs: Option<&'a (dyn Fn(u32) -> u32 + Sync)>,
    /// After how many more errors of the script itself there is no further try; zero for any
    /// number. Small, since the future of a release contains it.
    pub(crate) script_errors: u8,
    /// Whether it is refused while the server has been away for the client's `fail_fast`.
    pub(crate) fails_fast: bool,
}

impl<'a> Repeated<'a> {
    /// Creates a repeated `call` that asks for no confirmation by replicas.
    pub(crate) const fn new(call: &'a ScriptCall, timeout: Duration, deadline: Moment) -> Self {
        Self {
            call,
            timeout,
            deadline,
            checked: None,
            needs: None,
            script_errors: 0,
            fails_fast: false,
        }
    }

    /// Gives up when the script has failed a few times on what it found.
    pub(crate) const fn unless_broken(mut self) -> Self {
        self.script_errors = SCRIPT_ERRORS;
        self
    }
}

/// The reply to a [`Repeated`] call.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) reply: Value,
    /// Whether the server may have executed an earlier copy of the call.
    pub(crate) resent: bool,
    /// Whether the call went without its optional keys.
    pub(crate) bare: bool,
    /// An error if fewer replicas have confirmed the call than it needs.
    pub(crate) confirmed: Result<(), Error>,
}

/// Returns whether an outcome is neither a redirection nor a refusal.
pub(crate) const fn is_settled(outcome: &CallOutcome) -> bool {
    !matches!(
        outcome,
        CallOutcome::Failed(Failure::Refused(..) | Failure::Redirected(_))
    )
}

/// The tries of one idempotent request.
#[derive(Default)]
struct Tries {
    failures: u32,
    /// Whether the server may have executed one of them.
    unknown: bool,
}

impl Tries {
    /// Waits until the next try. Fails if no further try is possible.
    async fn failed(
        &mut self,
        world: &World,
        repeated: &mut Repeated<'_>,
        failure: Failure,
    ) -> Result<(), Error> {
        // A forked process sends nothing, and its alarms never fire.
        world.life.check_process()?;
        self.unknown |= !failure.is_not_executed();
        self.failures += 1;
        if let Failure::Strange(error) = &failure
            && let reply = error.to_string()
            && is_script_error(&reply)
            && repeated.script_errors > 0
        {
            repeated.script_errors -= 1;
            if repeated.script_errors == 0 {
                return Err(Error::broken(&reply));
            }
        }
        let next =
            world.now() + timeouts::REQUEST_RETRY.delay(self.failures, world.runtime.random());
        // A refusal is a clear answer. A further try that is not answered in time would replace it
        // by an unknown outcome.
        let last = if self.unknown {
            repeated.deadline
        } else {
            repeated.deadline.before(timeouts::LAST_TRY)
        };
        if failure.is_final() || next >= last {
            return Err(failure.into_error(self.unknown));
        }
        world.alarm(next).await;
        Ok(())
    }
}

/// How often a script fails on what it found before its caller is told. Somebody may be writing.
const SCRIPT_ERRORS: u8 = 3;
