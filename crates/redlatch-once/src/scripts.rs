//! The scripts in `lua/once`. Only this module knows the order of their keys and arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, LossCause, Token,
    family::{
        AcquireRequest, AttemptId, Changed, Items, Key, ReleaseReply, ReleaseRequest, RenewRequest,
        Renewed, Script, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::ONCE;

use crate::{
    JobRecord, Slot,
    decide::{Claim, Intent, View},
    record::parse_process,
};

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(&ONCE.claim));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&ONCE.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&ONCE.release));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&ONCE.look));
static RESET: LazyLock<Script> = LazyLock::new(|| Script::new(&ONCE.reset));

/// `once/claim`.
#[derive(Debug)]
pub(crate) struct ClaimScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) request: &'a AcquireRequest<'a>,
    pub(crate) intent: &'a Intent,
    pub(crate) ttl: Duration,
    pub(crate) limit: u64,
    pub(crate) process: &'a str,
    pub(crate) keep: Option<Duration>,
}

/// The reply of `once/claim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Granted {
        attempt: u32,
        token: Token,
        abandoned: bool,
    },
    Busy {
        remaining: Duration,
        owner: String,
    },
    Moved,
    Late,
    Void,
}

impl ClaimScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        // Texts are compared with the server's time, which has 13 digits.
        let time = |millis: u64| format!("{millis:013}");
        ScriptCall::new(&CLAIM, self.key)
            .dated()
            .key(self.key.as_str())
            .arg(self.request.owner)
            .arg(self.request.attempt)
            .arg(millis(self.request.lease))
            .arg(millis(
                self.ttl.max(self.request.lease + self.request.retention),
            ))
            .arg(self.intent.slot.stored())
            .arg(&self.intent.seen)
            .maybe(self.intent.from.map(time))
            .maybe(self.intent.before.map(time))
            .arg(self.limit)
            .arg(self.process)
            .maybe(self.keep.map(millis))
    }

    pub(crate) fn decode(reply: &Value) -> Result<Claimed, Error> {
        let items = Items::new(&CLAIM, reply)?;
        Ok(match items.text(1)? {
            "granted" => Claimed::Granted {
                attempt: items.number(2)?,
                token: Token::from_u64(items.number(3)?),
                abandoned: items.number::<u8>(4)? == 1,
            },
            "busy" => Claimed::Busy {
                remaining: Duration::from_millis(items.number(2)?),
                owner: items.text(3)?.to_owned(),
            },
            "moved" => Claimed::Moved,
            "full" => return Err(full()),
            "late" => Claimed::Late,
            "void" => Claimed::Void,
            "kind" => return Err(wrong(items.text(2)?)),
            _ => return Err(items.bad()),
        })
    }
}

/// `once/renew`.
#[derive(Debug)]
pub(crate) struct RenewScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) request: &'a RenewRequest<'a>,
    pub(crate) ttl: Duration,
}

impl RenewScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let Self { key, request, ttl } = self;
        ScriptCall::new(&RENEW, key)
            .dated()
            .key(key.as_str())
            .arg(request.owner)
            .arg(millis(request.lease))
            .arg(millis((*ttl).max(request.lease + request.retention)))
            .arg(request.token)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Renewed, Error> {
        let items = Items::new(&RENEW, reply)?;
        Ok(match items.text(1)? {
            "renewed" => Renewed::Renewed,
            "late" => Renewed::Late,
            "expired" => Renewed::Lost(LossCause::Expired),
            "taken" => Renewed::Lost(LossCause::Taken),
            "gone" | "kind" => Renewed::Lost(LossCause::Forgotten),
            _ => return Err(items.bad()),
        })
    }
}

/// `once/release`.
#[derive(Debug)]
pub(crate) struct ReleaseScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) request: &'a ReleaseRequest<'a>,
    pub(crate) ttl: Duration,
    /// The outcome and its reason; `None` for a run that never began.
    pub(crate) ending: Option<(&'a str, &'a str)>,
    pub(crate) keep: Option<Duration>,
}

impl ReleaseScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let request = self.request;
        let (outcome, why) = self.ending.unwrap_or_default();
        ScriptCall::new(&RELEASE, self.key)
            .key(self.key.as_str())
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

    pub(crate) fn decode(reply: &Value) -> Result<ReleaseReply, Error> {
        let items = Items::new(&RELEASE, reply)?;
        Ok(match items.text(1)? {
            "released" => ReleaseReply::Released(0),
            "expired" => ReleaseReply::Expired,
            "already" => ReleaseReply::Already(0),
            "taken" => ReleaseReply::Taken,
            "gone" | "kind" => ReleaseReply::Gone,
            _ => return Err(items.bad()),
        })
    }
}

/// `once/look`.
#[derive(Debug)]
pub(crate) struct LookScript<'a> {
    pub(crate) key: &'a Key,
    /// A keyed slot to look at as well.
    pub(crate) slot: Option<&'a Slot>,
}

impl LookScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&LOOK, self.key)
            .key(self.key.as_str())
            .maybe(self.slot.map(Slot::stored))
    }

    pub(crate) fn decode(reply: &Value) -> Result<View, Error> {
        let items = Items::new(&LOOK, reply)?;
        match items.text(1)? {
            "job" => {}
            "kind" => return Err(wrong(items.text(2)?)),
            _ => return Err(items.bad()),
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
                Some(Claim {
                    ends: items.number(9)?,
                    owner: owner.to_owned(),
                    attempt: items.number(11)?,
                    token,
                    began: items.number(12)?,
                    host,
                    pid,
                    slot: Slot::parse(items.text(14)?).ok_or_else(|| items.bad())?,
                })
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
}

/// `once/reset`.
#[derive(Debug)]
pub(crate) struct ResetScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) op: &'a AttemptId,
    pub(crate) view: &'a View,
}

/// The reply of `once/reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    Done,
    Unset,
    Moved,
}

impl ResetScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&RESET, self.key)
            .dated()
            .key(self.key.as_str())
            .arg(self.op)
            .arg(self.view.seen())
            .arg(&self.view.reset)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Changed<Reset>, Error> {
        let items = Items::new(&RESET, reply)?;
        Ok(Changed::Done(match items.text(1)? {
            "reset" => Reset::Done,
            "unset" => Reset::Unset,
            "moved" => Reset::Moved,
            "late" => return Ok(Changed::Late),
            "kind" => return Err(wrong(items.text(2)?)),
            _ => return Err(items.bad()),
        }))
    }
}

fn wrong(found: &str) -> Error {
    Error::wrong_kind(found, "once:1")
}

fn full() -> Error {
    Error::new(
        ErrorKind::OutOfRange,
        "1000 keyed slots are remembered already: wait until the oldest is forgotten, reset the job, \
         or use a job per kind of key; a shorter `keep` counts for later slots only",
    )
}
