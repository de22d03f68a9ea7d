//! The scripts of the plain lock: the only place that knows the order of their keys and arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, Key, LossCause, Token,
    primitive::{AcquireRequest, Answer, Grant, Parted, ReleaseRequest, RenewRequest, Renewed},
    script::{Items, Script, ScriptCall, millis},
    seam::Value,
};
use redlatch_lua::REENTRANT;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.acquire));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.release));
static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.inspect));
static FORCE: LazyLock<Script> = LazyLock::new(|| Script::new(&REENTRANT.force));

/// `reentrant/acquire.lua` for one name.
pub(crate) struct AcquireScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) request: &'a AcquireRequest<'a>,
}

impl AcquireScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let Self { key, request } = self;
        ScriptCall::new(&ACQUIRE, key)
            .dated()
            .key(key.as_str())
            .key(key.part(QUEUE))
            .arg(request.owner.to_string())
            .arg(request.attempt.to_string())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.register.map(millis).unwrap_or_default())
            .arg(request.address)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&ACQUIRE, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                token: Token::from_u64(items.number(3)?),
                abandoned: items.number::<u8>(4)? == 1,
                lasts: match items.text(5) {
                    Ok(_) => None,
                    Err(_) => Some(Duration::from_millis(items.number(5)?)),
                },
            }),
            "busy" => Answer::Busy {
                remaining: Duration::from_millis(items.number(3)?),
                holder: items.text(4)?.to_owned(),
                called: None,
            },
            "late" => Answer::Late,
            "void" => Answer::Void,
            "kind" => return Err(wrong_kind(items.text(3)?)),
            _ => return Err(items.bad()),
        })
    }
}

/// `reentrant/renew.lua` for one name.
pub(crate) struct RenewScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) request: &'a RenewRequest<'a>,
}

impl RenewScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let Self { key, request } = self;
        ScriptCall::new(&RENEW, key)
            .dated()
            .key(key.as_str())
            .arg(request.owner.to_string())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.token.to_string())
    }

    pub(crate) fn decode(reply: &Value) -> Result<Renewed, Error> {
        let items = Items::new(&RENEW, reply)?;
        Ok(match items.text(1)? {
            "renewed" => Renewed::Renewed,
            "late" => Renewed::Late,
            "expired" => Renewed::Lost(LossCause::Expired),
            "taken" => Renewed::Lost(LossCause::Taken),
            "revoked" => Renewed::Lost(LossCause::Revoked),
            "gone" | "kind" => Renewed::Lost(LossCause::Forgotten),
            _ => return Err(items.bad()),
        })
    }
}

/// `reentrant/release.lua` for one name.
pub(crate) struct ReleaseScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) request: &'a ReleaseRequest<'a>,
}

impl ReleaseScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let Self { key, request } = self;
        ScriptCall::new(&RELEASE, key)
            .key(key.as_str())
            .helped_by()
            .key(key.part(QUEUE))
            .arg(request.owner.to_string())
            .arg(request.attempt.to_string())
            .arg(request.void_by.map(|by| by.to_string()).unwrap_or_default())
            .arg(millis(request.retention))
            .arg(request.address)
            .arg(
                request
                    .token
                    .map(|token| token.to_string())
                    .unwrap_or_default(),
            )
    }

    pub(crate) fn decode(reply: &Value) -> Result<Parted, Error> {
        let items = Items::new(&RELEASE, reply)?;
        Ok(match items.text(1)? {
            "released" => Parted::Released(items.number(2)?),
            "expired" => Parted::Expired,
            "already" => Parted::Already(items.number(2)?),
            "revoked" => Parted::Revoked,
            "taken" => Parted::Taken,
            "gone" | "kind" => Parted::Gone,
            _ => return Err(items.bad()),
        })
    }
}

/// `reentrant/inspect.lua`.
pub(crate) struct InspectScript<'a> {
    pub(crate) key: &'a Key,
}

/// What `reentrant/inspect.lua` found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inspected {
    Free,
    OtherKind(String),
    Held {
        now: u64,
        owner: String,
        count: u32,
        token: Token,
        remaining: Duration,
        waiters: u64,
    },
}

impl InspectScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&INSPECT, self.key)
            .key(self.key.as_str())
            .key(self.key.part(QUEUE))
    }

    pub(crate) fn decode(reply: &Value) -> Result<Inspected, Error> {
        let items = Items::new(&INSPECT, reply)?;
        Ok(match items.text(1)? {
            "free" => Inspected::Free,
            "kind" => Inspected::OtherKind(items.text(2)?.to_owned()),
            "held" => Inspected::Held {
                now: items.number(0)?,
                owner: items.text(2)?.to_owned(),
                count: items.number(3)?,
                token: Token::from_u64(items.number(4)?),
                remaining: Duration::from_millis(items.number(5)?),
                waiters: items.number(6)?,
            },
            _ => return Err(items.bad()),
        })
    }
}

/// `reentrant/force.lua`.
pub(crate) struct ForceScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) token: Token,
    pub(crate) how: Force,
    pub(crate) retention: Duration,
}

/// How a hold is ended by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    Now,
    AfterLease,
}

impl ForceScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let how = match self.how {
            Force::Now => "now",
            Force::AfterLease => "after",
        };
        ScriptCall::new(&FORCE, self.key)
            .key(self.key.as_str())
            .helped_by()
            .key(self.key.part(QUEUE))
            .arg(self.token.to_string())
            .arg(how)
            .arg(millis(self.retention))
    }

    /// Tells whether the hold was there to be ended, by this call or by an earlier copy of it.
    pub(crate) fn decode(reply: &Value) -> Result<bool, Error> {
        let items = Items::new(&FORCE, reply)?;
        match items.text(1)? {
            "done" | "already" => Ok(true),
            "gone" => Ok(false),
            "kind" => Err(wrong_kind(items.text(2)?)),
            _ => Err(items.bad()),
        }
    }
}

pub(crate) fn wrong_kind(found: &str) -> Error {
    Error::new(
        ErrorKind::WrongKind,
        format!("the name belongs to an object of kind {found}, not to a lock:1"),
    )
}

/// The part of a lock's key that lists its waiters.
const QUEUE: &str = "q";
