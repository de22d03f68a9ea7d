//! The scripts that begin, renew and end holds.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, LossCause, Token,
    family::{
        AcquireRequest, Answer, Grant, Items, Key, ReleaseReply, ReleaseRequest, RenewRequest,
        Renewed, Script, ScriptCall, WithdrawRequest, Withdrawn, millis,
    },
    runtime::Value,
};
use redlatch_lua::POOL;

use super::{other, queued, unset};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.acquire));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.release));
static WITHDRAW: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.withdraw));

/// `pool/acquire.lua`.
pub(crate) struct AcquireScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) need: u32,
    pub(crate) size: Option<u32>,
    /// Each permit is a hold of its own.
    pub(crate) each: bool,
}

impl AcquireScript<'_> {
    pub(crate) fn call(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let waits = request.register.filter(|_| !request.address.is_empty());
        let call = queued(&ACQUIRE, self.key)
            .dated()
            .arg(request.owner.client())
            .arg(self.kind)
            .arg(millis(request.lease))
            .arg(request.attempt.suffix())
            .arg(self.need)
            .maybe(self.size)
            .maybe(waits.map(millis))
            .arg(member(request.address, self.need))
            .arg(if self.each { "1" } else { "" });
        if self.each && self.need > FEW {
            call.alone()
        } else {
            call
        }
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&ACQUIRE, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                token: Token::from_u64(items.number(3)?),
                serial: items.number(3)?,
                abandoned: false,
                lasts: items.maybe(4)?.map(Duration::from_millis),
                unqueued: items.len() > 5 && items.number::<u8>(5)? == 0,
            }),
            "busy" => Answer::Busy {
                remaining: items.maybe(2)?.map_or(Duration::MAX, Duration::from_millis),
                holder: String::new(),
                called: items.maybe(3)?,
                entered: items.number::<u8>(4)? == 1,
                beside: false,
            },
            "more" => Answer::Unfinished,
            "late" => Answer::Late,
            "void" => Answer::Void,
            "unset" => return Err(unset()),
            "large" => {
                let size: u32 = items.number(2)?;
                let requested = match self.need {
                    1 => "1 permit is requested".to_owned(),
                    need => format!("{need} permits are requested at once"),
                };
                let message = format!(
                    "{requested}, and it has {size} in total; set_permits and add_permits change that"
                );
                return Err(Error::new(ErrorKind::OutOfRange, message));
            }
            _ => return other(&items, self.kind),
        })
    }

    /// Reads the time of a busy reply as the number of a hold. A later grant has a greater one.
    pub(crate) fn last_token(reply: &Value) -> Option<Token> {
        let items = Items::new(&ACQUIRE, reply).ok()?;
        let busy = items.text(1).ok()? == "busy";
        let millis: u64 = items.text(0).ok().filter(|_| busy)?.parse().ok()?;
        Some(Token::from_u64(millis.saturating_mul(1_000)))
    }
}

/// Returns the member of the queue for a waiter, whose address may end with an order.
fn member(address: &str, need: u32) -> String {
    match address.split_once(" g") {
        Some((address, order)) => format!("{address} {need} g{order}"),
        None if address.is_empty() => String::new(),
        None => format!("{address} {need}"),
    }
}

/// `pool/renew.lua`.
pub(crate) struct RenewScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) lease: Duration,
}

impl<'a> RenewScript<'a> {
    pub(crate) fn of(key: &'a Key, kind: &'a str, request: &RenewRequest<'_>) -> ScriptCall {
        let lease = request.lease;
        Self { key, kind, lease }.call(&request.attempt.to_string())
    }

    pub(crate) fn call(&self, hold: &str) -> ScriptCall {
        let (client, number) = hold.split_at(hold.find(':').unwrap_or_default());
        ScriptCall::new(&RENEW, self.key)
            .dated()
            .key(self.key.as_str())
            .arg(client)
            .arg(self.kind)
            .arg(millis(self.lease))
            .arg(number)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Renewed, Error> {
        let items = Items::new(&RENEW, reply)?;
        Ok(match items.text(1)? {
            "late" => Renewed::Late,
            "renewed" => match items.maybe(2)?.map(Duration::from_millis) {
                None => Renewed::Renewed,
                Some(rest) => Renewed::Ends(rest),
            },
            "expired" => Renewed::Lost(LossCause::Expired),
            "gone" | "kind" => Renewed::Lost(LossCause::Forgotten),
            _ => return Err(items.bad()),
        })
    }
}

/// `pool/release.lua`.
pub(crate) struct ReleaseScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    /// The client whose attempt this is, or whose holds these are.
    pub(crate) client: &'a str,
    /// The attempt whose holds these are, `:<n>`. Empty if grants in the reply are not passed on to
    /// waiters of this client.
    pub(crate) attempt: String,
    /// The last server time at which a copy of its acquire may act, if this undoes it.
    pub(crate) void_by: Option<u64>,
    pub(crate) retention: Duration,
    /// The queue's member to remove.
    pub(crate) waiter: String,
    pub(crate) left: u32,
    pub(crate) forgotten: u32,
}

/// The outcome of one hold that was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This call took permits back; the hold has this many left.
    Released(u32),
    /// The hold had no more than it may keep.
    Already(u32),
    /// The hold's lease was over.
    Expired,
    /// The hold is unknown.
    Gone,
}

impl<'a> ReleaseScript<'a> {
    pub(crate) fn of(key: &'a Key, kind: &'a str, need: u32, request: &ReleaseRequest<'a>) -> Self {
        Self {
            key,
            kind,
            client: request.owner.client().as_str(),
            attempt: request.attempt.suffix().to_string(),
            void_by: request.void_by,
            retention: request.retention,
            waiter: member(request.address, need),
            left: request.left,
            forgotten: request.forgotten,
        }
    }

    /// Takes the holds as the script does: `:<n>` or `:<n>:<i>` of the client, and a whole name of
    /// another one.
    pub(crate) fn call(&self, holds: &[String]) -> ScriptCall {
        let call = queued(&RELEASE, self.key)
            .can_do_with(1)
            .arg(self.client)
            .arg(self.kind)
            .arg(millis(self.retention))
            .arg(self.attempt.as_str())
            .maybe(self.void_by)
            .arg(self.waiter.as_str())
            .arg(self.left)
            .arg(self.forgotten);
        match holds {
            [one] => call.arg(one),
            few if few.len() <= FEW as usize => call.arg(few.join(" ")),
            many => call.arg(many.join(" ")).alone(),
        }
    }

    /// Returns the name of a hold of any client for [`call`](Self::call). A text that names no hold
    /// becomes one that names none.
    pub(crate) fn hold(&self, name: &str) -> String {
        let ends = |rest: &str| rest.starts_with(':');
        match name.strip_prefix(self.client) {
            _ if name.is_empty() || ends(name) || name.contains(char::is_whitespace) => {
                NO_HOLD.to_owned()
            }
            Some(rest) if ends(rest) => rest.to_owned(),
            _ => name.to_owned(),
        }
    }

    /// Tells whether this reply reports grants to the client's own waiters instead of a message.
    pub(crate) fn tells(reply: &Value) -> bool {
        let Ok(items) = Items::new(&RELEASE, reply) else {
            return false;
        };
        !(1..items.len()).any(|at| matches!(items.text(at), Ok("sent")))
    }

    pub(crate) fn decode(reply: &Value) -> Result<Vec<Verdict>, Error> {
        let items = Items::new(&RELEASE, reply)?;
        let verdict = |at: usize| {
            Ok(match items.text(at)? {
                "released" => Verdict::Released(items.number(at + 1)?),
                "already" => Verdict::Already(items.number(at + 1)?),
                "expired" => Verdict::Expired,
                "gone" | "kind" => Verdict::Gone,
                _ => return Err(items.bad()),
            })
        };
        // Grants to waiters follow the holds.
        let holds = (1..items.len()).step_by(2);
        holds
            .take_while(|&at| !matches!(items.text(at), Ok("granted" | "holds" | "sent")))
            .map(verdict)
            .collect()
    }
}

impl Verdict {
    pub(crate) const fn release_reply(self) -> ReleaseReply {
        match self {
            Self::Released(left) => ReleaseReply::Released(left),
            Self::Already(left) => ReleaseReply::Already(left),
            Self::Expired => ReleaseReply::Expired,
            Self::Gone => ReleaseReply::Gone,
        }
    }
}

/// `pool/withdraw.lua`.
pub(crate) struct WithdrawScript;

impl WithdrawScript {
    pub(crate) fn call(kind: &str, request: &WithdrawRequest<'_>) -> ScriptCall {
        let call = queued(&WITHDRAW, request.key)
            .arg(request.what.word())
            .arg(request.channel)
            .arg(kind);
        let numbers = request.what.numbers().iter();
        numbers.fold(call, ScriptCall::arg)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Withdrawn, Error> {
        Withdrawn::decode(&WITHDRAW, reply)
    }
}

/// The largest number of holds in a call that goes together with others.
const FEW: u32 = 8;

/// A text that names no hold.
const NO_HOLD: &str = "-";
