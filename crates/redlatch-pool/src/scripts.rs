//! The scripts of the pool. No other file knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Discipline, Grant, Identity, Items, Key, Primitive,
        REMEMBERED, ReleaseReply, ReleaseRequest, RenewRequest, Script, ScriptCall, WaiterAddress,
        WithdrawRequest, millis,
    },
    runtime::Value,
};
use redlatch_lua::POOL;

use crate::{PermitHolder, Totals, pool::Counted};

impl Primitive for Counted {
    fn kind(&self) -> &'static str {
        self.flavour.kind
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn discipline(&self) -> Discipline {
        Discipline::Queued
    }

    fn names_attempts(&self) -> bool {
        true
    }

    fn form(&self) -> u64 {
        self.need.into()
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let waits = request.register.filter(|_| request.address.is_some());
        let call = queued(&POOL.acquire, self.key())
            .dated()
            .arg(request.owner.client())
            .arg(self.flavour.stored)
            .arg(millis(request.lease))
            .arg(request.attempt.suffix())
            .arg(self.need)
            .maybe(self.size)
            .maybe(waits.map(millis))
            .maybe(request.address.map(|address| address.with(self.need)))
            .arg(if self.flavour.each { "1" } else { "" });
        if self.flavour.each && self.need > FEW {
            call.alone()
        } else {
            call
        }
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&POOL.acquire, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                lasts: items.maybe_span(4)?,
                unqueued: items.len() > 5 && items.number::<u8>(5)? == 0,
                ..Grant::new(Token::from_u64(items.number(3)?))
            }),
            "busy" => Answer::Busy {
                remaining: items.maybe_span(2)?.unwrap_or(Duration::MAX),
                holder: String::new(),
                called: items.maybe(3)?,
                entered: items.flag(4)?,
                beside: false,
            },
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
            _ => Answer::neither(&items, self.flavour.stored)?,
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        let hold = request.attempt.to_string();
        renew(self.key(), self.flavour.stored, request.lease, &hold)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let release = ReleaseScript {
            key: self.key(),
            kind: self.flavour.stored,
            client: request.owner.client().as_str(),
            attempt: request.attempt.suffix().to_string(),
            void_by: request.void_by,
            retention: request.retention,
            waiter: request.address.map(|address| address.with(self.need)),
            left: request.left,
            forgotten: request.forgotten,
        };
        release.call(&self.holds(request.attempt))
    }

    fn released(&self, script: &'static Script, reply: &Value) -> Result<ReleaseReply, Error> {
        // Permits that are holds of their own end together only by an undo, whose answer is not
        // read.
        let verdicts = ReleaseScript::decode(&Items::new(script, reply)?)?;
        Ok(verdicts.first().copied().unwrap_or(ReleaseReply::Gone))
    }

    fn grants_ahead(&self) -> Option<u32> {
        // Each permit with an id is a hold, whose id may be in another process before the grant is
        // confirmed.
        (!self.flavour.each).then_some(self.need)
    }

    /// The reply of a release reports grants to the client's own waiters unless messages were sent.
    fn tells_by_reply(&self, reply: &Value) -> bool {
        let Ok(items) = Items::new(&POOL.release, reply) else {
            return false;
        };
        !(1..items.len()).any(|at| matches!(items.text(at), Ok("sent")))
    }

    /// Reads the time of a busy reply as the number of a hold. A later grant has a greater one.
    fn last_token(&self, reply: &Value) -> Option<Token> {
        let items = Items::new(&POOL.acquire, reply).ok()?;
        let busy = items.text(1).ok()? == "busy";
        let millis: u64 = items.text(0).ok().filter(|_| busy)?.parse().ok()?;
        Some(Token::from_u64(millis.saturating_mul(1_000)))
    }

    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        let call = queued(&POOL.withdraw, request.key)
            .arg(request.what.word())
            .arg(request.channel)
            .arg(self.flavour.stored)
            .args(request.what.numbers());
        Some(call)
    }
}

/// Calls `pool/renew.lua`.
pub(crate) fn renew(key: &Key, kind: &str, lease: Duration, hold: &str) -> ScriptCall {
    let (client, number) = hold.split_at(hold.find(':').unwrap_or_default());
    ScriptCall::new(&POOL.renew, key)
        .dated()
        .arg(client)
        .arg(kind)
        .arg(millis(lease))
        .arg(number)
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
    pub(crate) waiter: Option<WaiterAddress<'a>>,
    pub(crate) left: u32,
    pub(crate) forgotten: u32,
}

impl ReleaseScript<'_> {
    /// Takes the holds as the script does: `:<n>` or `:<n>:<i>` of the client, and a whole name of
    /// another one.
    pub(crate) fn call(&self, holds: &[String]) -> ScriptCall {
        let call = queued(&POOL.release, self.key)
            .can_do_with(1)
            .arg(self.client)
            .arg(self.kind)
            .arg(millis(self.retention))
            .arg(self.attempt.as_str())
            .maybe(self.void_by)
            .maybe(self.waiter)
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

    pub(crate) fn decode(items: &Items<'_>) -> Result<Vec<ReleaseReply>, Error> {
        // Grants to waiters follow the holds.
        let holds = (1..items.len()).step_by(2);
        holds
            .take_while(|&at| !matches!(items.text(at), Ok("granted" | "holds" | "sent")))
            .map(|at| ReleaseReply::read(items, at))
            .collect()
    }
}

/// The largest number of holds in a call that goes together with others.
const FEW: u32 = 8;

/// A text that names no hold.
const NO_HOLD: &str = "-";

/// A change of the number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the size.
    Set(u32),
    /// Sets the size if it is not set.
    TrySet(u32),
    /// Adds to the size.
    Add(i64),
    /// Removes all available permits.
    Drain,
    /// Deletes the pool.
    Delete,
}

/// The result of `pool/change.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
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

/// Calls `pool/change.lua`. The TTL of the pool is zero for ever, `None` to leave it.
pub(crate) fn change(
    key: &Key,
    kind: &str,
    op: &AttemptId,
    change: Change,
    ttl: Option<Duration>,
) -> ScriptCall {
    let (verb, number) = match change {
        Change::Set(size) => ("set", i64::from(size)),
        Change::TrySet(size) => ("try", i64::from(size)),
        Change::Add(change) => ("add", change),
        Change::Drain => ("drain", 0),
        Change::Delete => ("delete", 0),
    };
    queued(&POOL.change, key)
        .dated()
        .key(key.part("o"))
        .key(key.part("p"))
        .arg(kind)
        .arg(op)
        .arg(millis(REMEMBERED))
        .arg(verb)
        .arg(number)
        .maybe(ttl.map(millis))
}

pub(crate) fn changed(kind: &str, items: &Items<'_>) -> Result<Made, Error> {
    Ok(match items.text(1)? {
        "done" => Made::Done(items.number(2)?),
        "set" => Made::Set,
        "unset" => Made::Unset,
        "below" | "above" => Made::OutOfRange(items.number(2)?),
        "more" => Made::More,
        _ => return items.other(kind),
    })
}

/// Calls `pool/inspect.lua`.
pub(crate) fn inspect(key: &Key, kind: &str, size: Option<u32>) -> ScriptCall {
    queued(&POOL.inspect, key).arg(kind).maybe(size)
}

/// Reads the totals; `None` if more expired entries have to be removed first.
pub(crate) fn inspected(kind: &str, items: &Items<'_>) -> Result<Option<Totals>, Error> {
    Ok(match items.text(1)? {
        "set" => {
            let (permits, acquired) = (items.number(2)?, items.number(3)?);
            Some(Totals {
                permits,
                acquired,
                available: permits.saturating_sub(acquired),
                waiters: items.number(4)?,
                remaining: items.maybe_span(5)?,
            })
        }
        "unset" => return Err(unset()),
        "more" => None,
        _ => return items.other(kind),
    })
}

/// Calls `pool/holds.lua`.
pub(crate) fn holds(key: &Key, kind: &str, from: usize, count: usize) -> ScriptCall {
    let call = ScriptCall::new(&POOL.holds, key).key(key.part("d"));
    call.arg(kind).arg(from).arg(count)
}

/// Returns the number of examined holds, and the living ones among them.
pub(crate) fn listed(kind: &str, items: &Items<'_>) -> Result<(usize, Vec<PermitHolder>), Error> {
    if items.text(1).is_ok_and(|verdict| verdict == "kind") {
        return items.other(kind);
    }
    let hold = |at: usize| {
        Ok(PermitHolder {
            id: items.text(at)?.to_owned(),
            permits: items.number(at + 1)?,
            remaining: items.span(at + 2)?,
            metadata: None,
            note: None,
        })
    };
    let holds: Result<_, Error> = (2..items.len()).step_by(3).map(hold).collect();
    Ok((items.number(1)?, holds?))
}

/// Calls `pool/look.lua`.
pub(crate) fn look(key: &Key, kind: &str, holds: &[String]) -> ScriptCall {
    ScriptCall::new(&POOL.look, key).arg(kind).args(holds)
}

/// Returns the remaining time of each hold; zero if it is over or unknown.
pub(crate) fn looked(kind: &str, items: &Items<'_>) -> Result<Vec<Duration>, Error> {
    if items.text(1).is_ok_and(|verdict| verdict == "kind") {
        return items.other(kind);
    }
    (1..items.len()).map(|at| items.span(at)).collect()
}

pub(crate) fn unset() -> Error {
    let message = "nobody has set how many permits there are; call try_set_permits, or take the handle with permits_if_unset";
    Error::new(ErrorKind::NotSet, message)
}

/// Starts a call that may notify waiters.
fn queued(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key)
        .key(key.part("d"))
        .key(key.part("q"))
        .key(key.part("l"))
}

#[cfg(test)]
mod tests {
    use redlatch_core::family::{Name, Prefix, Withdrawn};

    use self::replies::{decodes_anything, reads_anything};
    use super::*;
    use crate::Flavour;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

    const KIND: &str = "sem:1";

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        let hold = Counted {
            flavour: Flavour {
                kind: "semaphore",
                stored: KIND,
                each: false,
            },
            identity: Identity {
                class: "".into(),
                key: Key::new(&Prefix::default(), &Name::parse("n").unwrap()),
            },
            need: 2,
            size: None,
        };
        decodes_anything(
            &[
                "granted", "busy", "more", "late", "void", "unset", "large", "kind",
            ],
            |reply| hold.acquired(reply),
        );
        decodes_anything(&["renewed", "expired", "gone", "late", "kind"], |reply| {
            hold.renewed(&POOL.renew, reply)
        });
        let words = ["released", "already", "expired", "gone", "kind"];
        reads_anything(&POOL.release, &words, ReleaseScript::decode);
        reads_anything(
            &POOL.withdraw,
            &["found", "struck", "kind"],
            Withdrawn::read,
        );
    }

    #[test]
    fn any_reply_about_the_pool_is_decoded_or_refused() {
        let words = ["done", "set", "unset", "below", "above", "more", "kind"];
        reads_anything(&POOL.change, &words, |items| changed(KIND, items));
        let words = ["set", "unset", "more", "kind"];
        reads_anything(&POOL.inspect, &words, |items| inspected(KIND, items));
        reads_anything(&POOL.holds, &["0", "kind"], |items| listed(KIND, items));
        reads_anything(&POOL.look, &["5", "kind"], |items| looked(KIND, items));
    }
}
