//! The scripts that begin, renew and end holds.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, ErrorKind, Token,
    family::{
        AcquireRequest, Answer, Discipline, Grant, HoldNames, Items, Key, Primitive, ReleaseReply,
        ReleaseRequest, RenewRequest, Renewed, ScriptCall, WithdrawRequest, Withdrawn, millis,
    },
    runtime::Value,
};
use redlatch_lua::POOL;

use super::{queued, unset};
use crate::counted::Counted;

impl Primitive for Counted {
    fn kind(&self) -> &'static str {
        self.flavour.kind
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn discipline(&self) -> Discipline {
        Discipline::Queued
    }

    fn hold_names(&self) -> HoldNames {
        HoldNames::Attempts
    }

    fn form(&self) -> u64 {
        self.need.into()
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let waits = request.register.filter(|_| !request.address.is_empty());
        let call = queued(&POOL.acquire, &self.key)
            .dated()
            .arg(request.owner.client())
            .arg(self.flavour.stored)
            .arg(millis(request.lease))
            .arg(request.attempt.suffix())
            .arg(self.need)
            .maybe(self.size)
            .maybe(waits.map(millis))
            .arg(member(request.address, self.need))
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
            _ => return items.other(self.flavour.stored),
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        let hold = request.attempt.to_string();
        renew(&self.key, self.flavour.stored, request.lease, &hold)
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        renewed(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let release = ReleaseScript {
            key: &self.key,
            kind: self.flavour.stored,
            client: request.owner.client().as_str(),
            attempt: request.attempt.suffix().to_string(),
            void_by: request.void_by,
            retention: request.retention,
            waiter: member(request.address, self.need),
            left: request.left,
            forgotten: request.forgotten,
        };
        release.call(&self.holds(request.attempt))
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        // Permits that are holds of their own end together only by an undo, whose answer is not
        // read.
        let verdicts = ReleaseScript::decode(reply)?;
        Ok(verdicts.first().copied().unwrap_or(ReleaseReply::Gone))
    }

    fn grants_ahead(&self) -> Option<u32> {
        // Each permit with an id is a hold, whose id may be in another process before the grant is
        // confirmed.
        (!self.flavour.each).then_some(self.need)
    }

    fn tells_by_reply(&self, reply: &Value) -> bool {
        ReleaseScript::tells(reply)
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

    fn withdrawn(&self, reply: &Value) -> Result<Withdrawn, Error> {
        Withdrawn::decode(&POOL.withdraw, reply)
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

pub(crate) fn renewed(reply: &Value) -> Result<Renewed, Error> {
    Renewed::decode(&POOL.renew, reply)
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
        let Ok(items) = Items::new(&POOL.release, reply) else {
            return false;
        };
        !(1..items.len()).any(|at| matches!(items.text(at), Ok("sent")))
    }

    pub(crate) fn decode(reply: &Value) -> Result<Vec<ReleaseReply>, Error> {
        let items = Items::new(&POOL.release, reply)?;
        // Grants to waiters follow the holds.
        let holds = (1..items.len()).step_by(2);
        holds
            .take_while(|&at| !matches!(items.text(at), Ok("granted" | "holds" | "sent")))
            .map(|at| ReleaseReply::read(&items, at))
            .collect()
    }
}

/// The largest number of holds in a call that goes together with others.
const FEW: u32 = 8;

/// A text that names no hold.
const NO_HOLD: &str = "-";
