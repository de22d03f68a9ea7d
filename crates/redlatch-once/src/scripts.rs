//! The scripts in `lua/once`. Only this module knows the order of their keys and arguments.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redlatch_core::{
    Error, ErrorKind, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Grant, Identity, Items, Key, Primitive, ReleaseReply,
        ReleaseRequest, RenewRequest, Script, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::ONCE;

use crate::{
    JobHolder, JobOutcome, JobRecord, Slot,
    decide::{Claim, Intent, View},
    record::parse_process,
    slot::instant,
};

/// The longest reason of a failure that is kept, in bytes.
const REASON: usize = 500;

/// The claim of one slot by one call.
///
/// The engine knows grants and contention. What else the server replies, and how the run ends, is
/// kept beside it.
#[derive(Debug)]
pub(crate) struct SlotClaim {
    pub(crate) identity: Identity,
    pub(crate) intent: Intent,
    pub(crate) limit: u64,
    pub(crate) ttl: Duration,
    pub(crate) keep: Option<Duration>,
    pub(crate) process: String,
    pub(crate) state: Mutex<State>,
}

/// The part of a claim that the engine does not know.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The number of the attempt, if the last answer is a grant.
    attempt: Option<u32>,
    /// How the run ended, and why.
    ended: Option<(JobOutcome, String)>,
}

impl SlotClaim {
    /// Records how the run ended, for the release that follows.
    pub(crate) fn end(&self, outcome: JobOutcome, why: &str) {
        let mut end = why.len().min(REASON);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let why = why.get(..end).unwrap_or_default().to_owned();
        self.state().ended = Some((outcome, why));
    }

    /// Returns the number of the attempt, if the last answer is a grant.
    pub(crate) fn attempt(&self) -> Option<u32> {
        self.state().attempt
    }

    /// Returns how the run ended, and why.
    fn ended(&self) -> (&'static str, String) {
        match &self.state().ended {
            Some((outcome, why)) => (outcome.as_str(), why.clone()),
            // A guard that goes without a word was dropped by its caller.
            None => (JobOutcome::Dropped.as_str(), String::new()),
        }
    }

    /// Returns how long the key lives at least after a claim or a renewal for `lease`.
    fn life(&self, lease: Duration, retention: Duration) -> Duration {
        let after = retention.max(self.keep.unwrap_or_default());
        self.ttl.max(lease + after)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Primitive for SlotClaim {
    fn kind(&self) -> &'static str {
        "once"
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// An undo names no outcome. It depends on the kind of slot and on times only.
    fn form(&self) -> u64 {
        let keep = self.keep.map_or(0, |keep| millis(keep).wrapping_add(1));
        millis(self.ttl).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ keep
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        // Texts are compared with the server's time, which has 13 digits.
        let time = |millis: u64| format!("{millis:013}");
        ScriptCall::new(&ONCE.claim, self.key())
            .dated()
            .arg(request.owner)
            .arg(request.attempt)
            .arg(millis(request.lease))
            .arg(millis(self.life(request.lease, request.retention)))
            .arg(self.intent.slot.stored())
            .arg(&self.intent.seen)
            .maybe(self.intent.from.map(time))
            .maybe(self.intent.before.map(time))
            .arg(self.limit)
            .arg(&self.process)
            .maybe(self.keep.map(millis))
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&ONCE.claim, reply)?;
        let answer = match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                abandoned: items.flag(4)?,
                ..Grant::new(Token::from_u64(items.number(3)?))
            }),
            "busy" => Answer::busy(items.span(2)?, items.text(3)?),
            "moved" => Answer::busy(Duration::ZERO, ""),
            "full" => return Err(full()),
            _ => Answer::neither(&items, STORED)?,
        };
        let granted = matches!(answer, Answer::Granted(_));
        self.state().attempt = granted.then(|| items.number(2)).transpose()?;
        Ok(answer)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        ScriptCall::new(&ONCE.renew, self.key())
            .dated()
            .arg(request.owner)
            .arg(millis(request.lease))
            .arg(millis(self.life(request.lease, request.retention)))
            .arg(request.token)
            .maybe(self.keep.map(millis))
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        // Without a token, the call undoes a claim under which no run has begun.
        let (outcome, why) = request.token.map(|_| self.ended()).unwrap_or_default();
        ScriptCall::new(&ONCE.release, self.key())
            .arg(request.owner)
            .arg(request.attempt)
            .maybe(request.void_by)
            .arg(millis(self.ttl.max(request.retention)))
            .arg(millis(request.retention))
            .maybe(request.token)
            .arg(outcome)
            .arg(why)
            .maybe(self.keep.map(millis))
    }

    fn released(&self, script: &'static Script, reply: &Value) -> Result<ReleaseReply, Error> {
        let items = Items::new(script, reply)?;
        Ok(match items.text(1)? {
            "released" => ReleaseReply::Released(0),
            "already" => ReleaseReply::Already(0),
            _ => ReleaseReply::read(&items, 1)?,
        })
    }
}

/// Calls `once/look`, for a keyed slot as well if there is one.
pub(crate) fn look(key: &Key, slot: Option<&Slot>) -> ScriptCall {
    ScriptCall::new(&ONCE.look, key).maybe(slot.map(Slot::stored))
}

pub(crate) fn looked(items: &Items<'_>) -> Result<View, Error> {
    if items.text(1)? != "job" {
        return items.other(STORED);
    }
    let record = |at: usize| match items.text(at)? {
        "" => Ok(None),
        text => JobRecord::parse(text).map(Some).ok_or_else(|| items.bad()),
    };
    let token = items.maybe(2)?.map(Token::from_u64);
    let mut last = record(4)?;
    if let (Some(last), text) = (&mut last, items.text(5)?) {
        last.error = Some(text.to_owned()).filter(|text| !text.is_empty());
    }
    let open = items.text(7)?.split_whitespace().map(|entry| {
        let (slot, attempts) = entry.split_once(':')?;
        Some((slot.parse().ok()?, attempts.parse().ok()?))
    });
    let claim = match (items.text(10)?, token) {
        ("", _) | (_, None) => None,
        (owner, Some(token)) => {
            let (host, pid) = parse_process(items.text(13)?);
            let holder = JobHolder {
                slot: Slot::parse(items.text(14)?).ok_or_else(|| items.bad())?,
                attempt: items.number(11)?,
                token,
                began: instant(items.number(12)?),
                remaining: Duration::ZERO,
                host,
                pid,
                owner: owner.to_owned(),
            };
            let ends = items.number(9)?;
            Some(Claim { ends, holder })
        }
    };
    Ok(View {
        now: items.number(0)?,
        token,
        reset: items.text(3)?.to_owned(),
        last,
        success: record(6)?,
        open: open.collect::<Option<_>>().ok_or_else(|| items.bad())?,
        floor: items.maybe(8)?,
        claim,
        keyed: record(15)?,
    })
}

/// Calls `once/reset` for the job that looks like this.
pub(crate) fn reset(key: &Key, op: &AttemptId, view: &View) -> ScriptCall {
    ScriptCall::new(&ONCE.reset, key)
        .dated()
        .arg(op)
        .arg(view.seen())
        .arg(&view.reset)
}

/// Tells whether there was a job to reset; `None` if it has changed since the look.
pub(crate) fn was_reset(items: &Items<'_>) -> Result<Option<bool>, Error> {
    Ok(match items.text(1)? {
        "reset" => Some(true),
        "unset" => Some(false),
        "moved" => None,
        _ => return items.other(STORED),
    })
}

/// The kind as the server stores it.
const STORED: &str = "once:1";

fn full() -> Error {
    Error::new(
        ErrorKind::OutOfRange,
        "1000 keyed slots are remembered already: wait until the oldest is forgotten, reset the job, \
         or use a job per kind of key; a shorter `keep` counts for later slots only",
    )
}
