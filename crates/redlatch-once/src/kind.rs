//! The claim of one slot: the implementation of the core's `Primitive`.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redlatch_core::{
    Error,
    family::{
        AcquireRequest, Answer, Grant, Key, Primitive, ReleaseReply, ReleaseRequest, RenewRequest,
        Renewed, ScriptCall,
    },
    runtime::Value,
};

use crate::{
    JobOutcome,
    decide::Intent,
    scripts::{ClaimScript, Claimed, ReleaseScript, RenewScript},
};

/// The kind, as it appears in events and metrics.
pub(crate) const KIND: &str = "once";

/// The longest reason of a failure that is kept, in bytes.
const REASON: usize = 500;

/// The claim of one slot by one call.
///
/// The engine knows grants and contention. What else the server replies, and how the run ends, is
/// kept beside it.
#[derive(Debug)]
pub(crate) struct SlotClaim {
    pub(crate) key: Key,
    pub(crate) class: Arc<str>,
    pub(crate) intent: Intent,
    pub(crate) limit: u64,
    pub(crate) ttl: Duration,
    pub(crate) keep: Option<Duration>,
    pub(crate) process: String,
    pub(crate) state: Mutex<State>,
}

/// The part of a claim that the engine does not know.
#[derive(Debug)]
pub(crate) struct State {
    /// The last answer to the claim.
    claimed: Option<Claimed>,
    /// How the run ended.
    outcome: JobOutcome,
    why: String,
}

impl Default for State {
    fn default() -> Self {
        Self {
            claimed: None,
            // A guard that goes without a word was dropped by its caller.
            outcome: JobOutcome::Dropped,
            why: String::new(),
        }
    }
}

impl SlotClaim {
    /// Records how the run ended, for the release that follows.
    pub(crate) fn end(&self, outcome: JobOutcome, why: &str) {
        let mut end = why.len().min(REASON);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let mut state = self.state();
        state.outcome = outcome;
        why.get(..end)
            .unwrap_or_default()
            .clone_into(&mut state.why);
    }

    /// Returns the last answer to the claim.
    pub(crate) fn claimed(&self) -> Option<Claimed> {
        self.state().claimed.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Primitive for SlotClaim {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn key(&self) -> &Key {
        &self.key
    }

    /// An undo names no outcome. It depends on the kind of slot and on times only.
    fn form(&self) -> u64 {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let keep = self.keep.map_or(0, |keep| millis(keep).wrapping_add(1));
        millis(self.ttl).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ keep
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        ClaimScript {
            key: &self.key,
            request,
            intent: &self.intent,
            ttl: self.ttl,
            limit: self.limit,
            process: &self.process,
            keep: self.keep,
        }
        .call()
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let claimed = ClaimScript::decode(reply)?;
        let answer = match &claimed {
            Claimed::Granted {
                token, abandoned, ..
            } => Answer::Granted(Grant {
                count: 1,
                token: *token,
                serial: token.as_u64(),
                abandoned: *abandoned,
                lasts: None,
                unqueued: false,
            }),
            Claimed::Busy { remaining, owner } => busy(*remaining, owner),
            Claimed::Moved => busy(Duration::ZERO, ""),
            Claimed::Late => Answer::Late,
            Claimed::Void => Answer::Void,
        };
        self.state().claimed = Some(claimed);
        Ok(answer)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        RenewScript {
            key: &self.key,
            request,
            ttl: self.ttl,
        }
        .call()
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        RenewScript::decode(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let state = self.state();
        // Without a token, it undoes a claim that nobody has worked under.
        let begun = request.token.is_some();
        ReleaseScript {
            key: &self.key,
            request,
            ttl: self.ttl,
            ending: begun.then(|| (state.outcome.as_str(), state.why.as_str())),
            keep: self.keep,
        }
        .call()
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        ReleaseScript::decode(reply)
    }
}

fn busy(remaining: Duration, holder: &str) -> Answer {
    Answer::Busy {
        remaining,
        holder: holder.to_owned(),
        called: None,
        entered: false,
        beside: false,
    }
}
