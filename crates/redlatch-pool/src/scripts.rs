//! The scripts of the pool. No other file knows the order of their keys and arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, LossCause, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Changed, Grant, Items, Key, REMEMBERED, ReleaseReply,
        ReleaseRequest, RenewRequest, Renewed, Script, ScriptCall, WithdrawRequest, Withdrawn,
        millis,
    },
    runtime::Value,
};
use redlatch_lua::POOL;

use crate::{Hold, Totals};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.acquire));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.release));
static CHANGE: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.change));
static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.inspect));
static HOLDS: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.holds));
static WITHDRAW: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.withdraw));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.look));

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
        queued(&ACQUIRE, self.key)
            .dated()
            .arg(self.kind)
            .arg(request.attempt.to_string())
            .arg(self.need.to_string())
            .arg(millis(request.lease))
            .arg(optional(self.size))
            .maybe(waits.map(millis))
            .arg(request.address)
            .arg(if self.each { "1" } else { "" })
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&ACQUIRE, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                token: Token::from_u64(items.number(3)?),
                serial: items.number(3)?,
                abandoned: false,
                lasts: span(&items, 4)?,
                unqueued: items.len() > 5 && items.number::<u8>(5)? == 0,
            }),
            "busy" => Answer::Busy {
                remaining: span(&items, 2)?.unwrap_or(Duration::MAX),
                holder: String::new(),
                called: number(&items, 3)?,
                entered: items.number::<u8>(4)? == 1,
                beside: false,
            },
            "more" => Answer::Unfinished,
            "late" => Answer::Late,
            "void" => Answer::Void,
            "unset" => return Err(unset()),
            "large" => {
                let size: u32 = items.number(2)?;
                let message = format!("{} permits are asked for where there are {size}", self.need);
                return Err(Error::new(ErrorKind::OutOfRange, message));
            }
            _ => return other(&items, self.kind),
        })
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
        let hold = request.attempt.to_string();
        Self { key, kind, lease }.call(&[hold])
    }

    pub(crate) fn call(&self, holds: &[String]) -> ScriptCall {
        let call = ScriptCall::new(&RENEW, self.key)
            .dated()
            .key(self.key.as_str())
            .arg(self.kind)
            .arg(millis(self.lease));
        holds.iter().fold(call, ScriptCall::arg)
    }

    /// Reads the outcome of the hold at `at`.
    pub(crate) fn decode(reply: &Value, at: usize) -> Result<Renewed, Error> {
        let items = Items::new(&RENEW, reply)?;
        if items.text(1)? == "late" {
            return Ok(Renewed::Late);
        }
        Ok(match items.text(1 + 2 * at)? {
            "renewed" => match span(&items, 2 + 2 * at)? {
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
    /// The acquire that it undoes, and the last server time at which a copy of that may act.
    pub(crate) void: Option<(String, u64)>,
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
    pub(crate) fn of(key: &'a Key, kind: &'a str, need: u32, request: &ReleaseRequest<'_>) -> Self {
        let waiter = match request.address {
            "" => String::new(),
            address => format!("{address} {need}"),
        };
        Self {
            key,
            kind,
            void: request.void_by.map(|by| (request.attempt.to_string(), by)),
            retention: request.retention,
            waiter,
            left: request.left,
            forgotten: request.forgotten,
        }
    }

    pub(crate) fn call(&self, holds: impl IntoIterator<Item = String>) -> ScriptCall {
        let (attempt, by) = match &self.void {
            Some((attempt, by)) => (attempt.as_str(), by.to_string()),
            None => ("", String::new()),
        };
        let call = queued(&RELEASE, self.key)
            .can_do_with(1)
            .arg(self.kind)
            .arg(attempt)
            .arg(by)
            .arg(millis(self.retention))
            .arg(self.waiter.as_str())
            .arg(self.left.to_string())
            .arg(self.forgotten.to_string());
        holds.into_iter().fold(call, ScriptCall::arg)
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
        (1..items.len()).step_by(2).map(verdict).collect()
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

/// `pool/change.lua`.
pub(crate) struct ChangeScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) change: Change,
    /// The TTL of the pool; zero for ever, `None` to leave it.
    pub(crate) ttl: Option<Duration>,
}

/// A change of the number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set(u32),
    TrySet(u32),
    Add(i64),
    Drain,
    Delete,
}

/// What `pool/change.lua` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The change was made; the number is the size after it, or the number of drained permits.
    Done(u32),
    /// The number is already set.
    Set,
    /// The number is not set.
    Unset,
    /// The present size; the new one would be too small or too large.
    OutOfRange(u32),
    /// More expired entries have to be removed first.
    More,
}

impl ChangeScript<'_> {
    pub(crate) fn call(&self, op: &AttemptId) -> ScriptCall {
        let (verb, number) = match self.change {
            Change::Set(size) => ("set", i64::from(size)),
            Change::TrySet(size) => ("try", i64::from(size)),
            Change::Add(change) => ("add", change),
            Change::Drain => ("drain", 0),
            Change::Delete => ("delete", 0),
        };
        queued(&CHANGE, self.key)
            .dated()
            .key(self.key.part("o"))
            .key(self.key.part("p"))
            .arg(self.kind)
            .arg(op.to_string())
            .arg(millis(REMEMBERED))
            .arg(verb)
            .arg(number.to_string())
            .maybe(self.ttl.map(millis))
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Changed<Made>, Error> {
        let items = Items::new(&CHANGE, reply)?;
        Ok(Changed::Done(match items.text(1)? {
            "done" => Made::Done(items.number(2)?),
            "set" => Made::Set,
            "unset" => Made::Unset,
            "below" | "above" => Made::OutOfRange(items.number(2)?),
            "more" => Made::More,
            "late" => return Ok(Changed::Late),
            _ => return other(&items, self.kind),
        }))
    }
}

/// `pool/inspect.lua`.
pub(crate) struct InspectScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) size: Option<u32>,
}

/// What `pool/inspect.lua` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inspected {
    Set(Totals),
    Unset,
    /// More expired entries have to be removed first.
    More,
}

impl InspectScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        queued(&INSPECT, self.key)
            .arg(self.kind)
            .arg(optional(self.size))
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Inspected, Error> {
        let items = Items::new(&INSPECT, reply)?;
        Ok(match items.text(1)? {
            "set" => {
                let (permits, acquired) = (items.number(2)?, items.number(3)?);
                Inspected::Set(Totals {
                    permits,
                    acquired,
                    available: permits.saturating_sub(acquired),
                    waiters: items.number(4)?,
                    remaining: span(&items, 5)?,
                })
            }
            "unset" => Inspected::Unset,
            "more" => Inspected::More,
            _ => return other(&items, self.kind),
        })
    }
}

/// `pool/holds.lua`.
pub(crate) struct HoldsScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) from: usize,
    pub(crate) count: usize,
}

impl HoldsScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&HOLDS, self.key)
            .key(self.key.as_str())
            .key(self.key.part("d"))
            .arg(self.kind)
            .arg(self.from.to_string())
            .arg(self.count.to_string())
    }

    /// Returns the number of examined holds, and the living ones among them.
    pub(crate) fn decode(&self, reply: &Value) -> Result<(usize, Vec<Hold>), Error> {
        let items = Items::new(&HOLDS, reply)?;
        if items.text(1).is_ok_and(|verdict| verdict == "kind") {
            return other(&items, self.kind);
        }
        let hold = |at: usize| {
            Ok(Hold {
                id: items.text(at)?.to_owned(),
                permits: items.number(at + 1)?,
                remaining: Duration::from_millis(items.number(at + 2)?),
            })
        };
        let holds: Result<_, Error> = (2..items.len()).step_by(3).map(hold).collect();
        Ok((items.number(1)?, holds?))
    }
}

/// `pool/look.lua`.
pub(crate) struct LookScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
}

impl LookScript<'_> {
    pub(crate) fn call(&self, holds: &[String]) -> ScriptCall {
        let call = ScriptCall::new(&LOOK, self.key)
            .key(self.key.as_str())
            .arg(self.kind);
        holds.iter().fold(call, ScriptCall::arg)
    }

    /// Returns the remaining time of each; zero if it is over or unknown.
    pub(crate) fn decode(&self, reply: &Value) -> Result<Vec<Duration>, Error> {
        let items = Items::new(&LOOK, reply)?;
        if items.text(1).is_ok_and(|verdict| verdict == "kind") {
            return other(&items, self.kind);
        }
        let left = |at| Ok(Duration::from_millis(items.number(at)?));
        (1..items.len()).map(left).collect()
    }
}

pub(crate) fn unset() -> Error {
    let message = "nobody has set how many permits there are";
    Error::new(ErrorKind::NotSet, message)
}

/// Starts a call that may notify waiters.
fn queued(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key)
        .key(key.as_str())
        .key(key.part("d"))
        .key(key.part("q"))
        .key(key.part("l"))
}

fn optional(size: Option<u32>) -> String {
    size.map(|size| size.to_string()).unwrap_or_default()
}

/// Reads an optional span.
fn span(items: &Items<'_>, at: usize) -> Result<Option<Duration>, Error> {
    match items.text(at) {
        Ok("") => Ok(None),
        _ => Ok(Some(Duration::from_millis(items.number(at)?))),
    }
}

/// Reads an optional number.
fn number(items: &Items<'_>, at: usize) -> Result<Option<u64>, Error> {
    match items.text(at) {
        Ok("") => Ok(None),
        _ => items.number(at).map(Some),
    }
}

/// Reads a reply that no script makes itself.
fn other<R>(items: &Items<'_>, kind: &str) -> Result<R, Error> {
    if items.text(1)? != "kind" {
        return Err(items.bad());
    }
    let message = format!(
        "the name belongs to an object of kind {}, not to a {kind}",
        items.text(2)?
    );
    Err(Error::new(ErrorKind::WrongKind, message))
}

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use redlatch_core::{Prefix, family::Name};

    use super::{replies::decodes_anything, *};

    const KIND: &str = "sem:1";

    fn key() -> Key {
        Key::new(&Prefix::default(), &Name::parse("n").unwrap())
    }

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        let (key, kind) = (&key(), KIND);
        let acquire = AcquireScript {
            key,
            kind,
            need: 2,
            size: None,
            each: false,
        };
        decodes_anything(
            &[
                "granted", "busy", "more", "late", "void", "unset", "large", "kind",
            ],
            |reply| acquire.decode(reply),
        );
        decodes_anything(&["renewed", "expired", "gone", "late", "kind"], |reply| {
            RenewScript::decode(reply, 0)
        });
        decodes_anything(&["renewed", "expired", "gone", "late", "kind"], |reply| {
            RenewScript::decode(reply, 1)
        });
        decodes_anything(
            &["released", "already", "expired", "gone", "kind"],
            ReleaseScript::decode,
        );
        decodes_anything(&["found", "struck", "kind"], WithdrawScript::decode);
    }

    #[test]
    fn any_reply_about_the_pool_is_decoded_or_refused() {
        let (key, kind, size) = (&key(), KIND, None);
        let change = ChangeScript {
            key,
            kind,
            change: Change::Drain,
            ttl: None,
        };
        decodes_anything(
            &[
                "done", "set", "unset", "below", "above", "more", "late", "kind",
            ],
            |reply| change.decode(reply),
        );
        let inspect = InspectScript { key, kind, size };
        decodes_anything(&["set", "unset", "more", "kind"], |reply| {
            inspect.decode(reply)
        });
        let holds = HoldsScript {
            key,
            kind,
            from: 0,
            count: 9,
        };
        decodes_anything(&["0", "kind"], |reply| holds.decode(reply));
        decodes_anything(&["5", "kind"], |reply| {
            LookScript { key, kind }.decode(reply)
        });
    }
}
