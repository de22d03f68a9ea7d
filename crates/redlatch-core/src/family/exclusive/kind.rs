//! The scripts in `exclusive`. Only this module knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_lua::Exclusive as Sources;

use super::LockInfo;
use crate::{
    Client, Error, Owner, Token,
    base::{
        items::Items,
        primitive::{
            AcquireRequest, Answer, AnswerForAll, Force, Grant, Identity, Primitive,
            ReleaseRequest, RenewRequest, WaiterAddress, Waiting, WithdrawRequest,
        },
        script::{Script, ScriptCall, millis},
    },
    protocol::{name::Key, waiter::Discipline},
    runtime::Value,
};

/// One kind of exclusive hold.
#[derive(Debug)]
pub struct Kind {
    /// The kind, as it appears in events and metrics.
    pub label: &'static str,
    /// Kind and version, as the server stores them.
    pub stored: &'static str,
    /// The order in which its waiters are served.
    pub discipline: Discipline,
    /// The parts of its key that list its waiters.
    pub parts: &'static [&'static str],
    /// The scripts of the kind.
    pub scripts: &'static Sources,
}

impl Kind {
    /// Creates a call with the key and all its parts.
    pub fn call(&self, script: &'static Script, key: &Key) -> ScriptCall {
        self.call_all(script, &[key])
    }

    /// Creates a call with all keys, each followed by its parts. There is at least one key.
    fn call_all(&self, script: &'static Script, keys: &[&Key]) -> ScriptCall {
        let slot = keys.first().map_or(0, |key| key.slot());
        let call = ScriptCall::in_slot(script, slot);
        keys.iter().fold(call, |call, key| {
            let parts = self.parts.iter().map(|part| key.shown_part(part));
            call.key(key.as_str()).keys(parts)
        })
    }

    /// Appends the address of a waiter. The address of a waiter that is served in order contains
    /// its owner.
    fn address(
        &self,
        call: ScriptCall,
        address: Option<WaiterAddress<'_>>,
        owner: &Owner,
    ) -> ScriptCall {
        call.maybe(address.map(|address| match self.discipline {
            Discipline::Barging => address,
            Discipline::Queued => address.with_owner(owner),
        }))
    }

    fn acquire(&self, keys: &[&Key], request: &AcquireRequest<'_>) -> ScriptCall {
        let call = self
            .call_all(&self.scripts.acquire, keys)
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(if keys.len() == 1 { "" } else { "all" })
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.register.map(millis));
        self.address(call, request.address, request.owner)
    }
}

/// The codecs of `exclusive/inspect` and `force`.
impl Kind {
    pub(super) fn inspect(&self, key: &Key) -> ScriptCall {
        self.call(&self.scripts.inspect, key)
    }

    /// Reads the hold of `name`, if any owner holds it.
    pub(super) fn inspected(
        &self,
        name: &str,
        items: &Items<'_>,
    ) -> Result<Option<LockInfo>, Error> {
        match items.text(1)? {
            "free" => Ok(None),
            "held" => {
                let (now, token): (u64, u64) = (items.number(0)?, items.number(4)?);
                Ok(Some(LockInfo {
                    name: name.to_owned(),
                    owner: items.text(2)?.to_owned(),
                    count: items.number(3)?,
                    token: Token::from_u64(token),
                    age: Duration::from_millis(now.saturating_sub(token / 1000)),
                    remaining: items.span(5)?,
                    waiters: items.number(6)?,
                }))
            }
            _ => items.other(self.stored),
        }
    }

    pub(super) fn force(&self, key: &Key, token: Token, how: Force, client: &Client) -> ScriptCall {
        self.call(&self.scripts.force, key)
            .can_do_with(1)
            .arg(token)
            .arg(how.word())
            .arg(millis(client.0.retention))
            .arg(client.0.prefix.wake_channels())
    }

    /// Tells whether this call, or an earlier copy of it, ended the hold.
    pub(super) fn forced(&self, items: &Items<'_>) -> Result<bool, Error> {
        match items.text(1)? {
            "done" | "already" => Ok(true),
            "gone" => Ok(false),
            _ => items.other(self.stored),
        }
    }
}

/// The primitive that the engine uses.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: &'static Kind,
    pub(super) identity: Identity,
}

impl Primitive for Object {
    fn kind(&self) -> &'static str {
        self.kind.label
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn discipline(&self) -> Discipline {
        self.kind.discipline
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        self.kind.acquire(&[self.key()], request)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&self.kind.scripts.acquire, reply)?;
        Ok(match items.text(1)? {
            "granted" => {
                let queued = self.kind.discipline == Discipline::Queued;
                let grant = grant(&items, 2)?;
                Answer::Granted(Grant {
                    unqueued: queued && grant.count == 1 && items.len() < 7,
                    ..grant
                })
            }
            "busy" => Answer::Busy {
                remaining: items.maybe_span(3)?.unwrap_or(Duration::MAX),
                holder: items.text(4)?.to_owned(),
                called: if items.len() > 5 {
                    items.maybe(5)?
                } else {
                    None
                },
                entered: items.len() > 6 && items.flag(6)?,
                beside: false,
            },
            "kind" => return Err(Error::wrong_kind(items.text(3)?, self.kind.stored)),
            _ => Answer::neither(&items, self.kind.stored)?,
        })
    }

    fn acquire_all(&self, keys: &[&Key], request: &AcquireRequest<'_>) -> Option<ScriptCall> {
        Some(self.kind.acquire(keys, request))
    }

    fn acquired_all(&self, keys: usize, reply: &Value) -> Result<AnswerForAll, Error> {
        let items = Items::new(&self.kind.scripts.acquire, reply)?;
        Ok(match items.text(1)? {
            "granted" => {
                let grants = (0..keys).map(|key| grant(&items, 4 * key + 2));
                AnswerForAll::Granted(grants.collect::<Result<_, Error>>()?)
            }
            "busy" => match items.number::<usize>(2)? {
                at if (1..=keys).contains(&at) => AnswerForAll::Busy(at - 1),
                _ => return Err(items.bad()),
            },
            "more" | "late" | "void" => AnswerForAll::Refused,
            "kind" => return Err(Error::wrong_kind(items.text(3)?, self.kind.stored)),
            _ => return Err(items.bad()),
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        let (script, key) = (&self.kind.scripts.renew, self.key());
        // Many renewals are built at the same time.
        ScriptCall::with_room(script, key.slot(), 6, key.as_str().len() + 90)
            .key(key.as_str())
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(request.token)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let kind = self.kind;
        let call = kind
            .call(&kind.scripts.release, self.key())
            .can_do_with(1)
            .arg(request.owner.client())
            .arg(millis(request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.void_by);
        kind.address(call, request.address, request.owner)
            .maybe(request.token)
    }

    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        let call = self.kind.call(&self.kind.scripts.withdraw, request.key);
        let call = call.arg(request.what.word()).arg(request.channel);
        Some(call.args(request.what.numbers()))
    }

    fn grants_ahead(&self) -> Option<u32> {
        (self.kind.discipline == Discipline::Queued).then_some(1)
    }

    fn last_token(&self, reply: &Value) -> Option<Token> {
        let items = Items::new(&self.kind.scripts.acquire, reply).ok()?;
        if items.len() < 8 || items.text(1).ok()? != "busy" {
            return None;
        }
        items.maybe(7).ok()?.map(Token::from_u64)
    }

    fn waiting<'a>(&self, reply: &'a Value) -> Waiting<'a> {
        let barging = self.kind.discipline == Discipline::Barging;
        let items = Items::new(&self.kind.scripts.release, reply).ok();
        let Some(items) = items.filter(|_| barging) else {
            return Waiting::Unknown;
        };
        let freed = matches!(items.text(1), Ok("released")) && matches!(items.number(2), Ok(0));
        // A missing item would create an error, which costs ten allocations.
        if items.len() < 5 {
            return if freed {
                Waiting::Nobody
            } else {
                Waiting::Unknown
            };
        }
        match (items.text(3), items.number::<u64>(4)) {
            (Ok(called), Ok(more)) => Waiting::Somebody {
                called,
                more: more > 0,
            },
            _ => Waiting::Unknown,
        }
    }
}

/// Reads the grant of one name, at an index.
fn grant(items: &Items<'_>, at: usize) -> Result<Grant, Error> {
    Ok(Grant {
        count: items.number(at)?,
        abandoned: items.flag(at + 2)?,
        lasts: items.maybe_span(at + 3)?,
        ..Grant::new(Token::from_u64(items.number(at + 1)?))
    })
}
