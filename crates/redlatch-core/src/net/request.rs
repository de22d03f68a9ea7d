//! The requests to a node and their responses.

use std::time::Duration;

use super::{
    Checked, Limit,
    durable::{Acknowledged, Replication},
};
use crate::{
    Error,
    base::script::{CallOutcome, ScriptCall},
    protocol::{remains::Effect, time::Moment},
    runtime::Value,
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
    pub(super) fn whole_limit(&self) -> Limit {
        match self.replication {
            Some(replication) => replication.extend(self.limit),
            None => self.limit,
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
    /// After how many errors of the script itself there is no further try; zero for any number.
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
    /// An error if fewer replicas have confirmed the call than it needs.
    pub(crate) confirmed: Result<(), Error>,
}

/// How often a script fails on what it found before its caller is told. Somebody may be writing.
const SCRIPT_ERRORS: u8 = 3;
