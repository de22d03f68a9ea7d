//! The scripts of the read-write lock. No other file knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_core::{
    Client, Error, ErrorKind, LossCause, Owner, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Discipline, Force, Grant, Identity, Internals, Items,
        Key, Primitive, ReleaseRequest, RenewRequest, Script, ScriptCall, Side, WaiterAddress,
        WithdrawRequest, loss, millis,
    },
    runtime::Value,
};
use redlatch_lua::RWLOCK;

use crate::{Access, ReadWriteHolder, ReadWriteInfo};

/// One way to hold one lock.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) identity: Identity,
    pub(crate) way: Way,
}

/// How it is held.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Read,
    Upgradable,
    Write,
    /// As writer, by the owner of the upgradable hold with this serial.
    Upgrade(u64),
    /// As reader, by the writer whose attempt this ends. Has the last server time at which a copy
    /// of that may act, if copies may be under way.
    Downgrade(AttemptId, Token, Option<u64>),
}

impl Primitive for Hold {
    fn kind(&self) -> &'static str {
        match self.side() {
            Side::Shared => "read_lock",
            Side::Exclusive => "write_lock",
        }
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn discipline(&self) -> Discipline {
        Discipline::Queued
    }

    fn side(&self) -> Side {
        match self.way {
            Way::Read | Way::Upgradable | Way::Downgrade(..) => Side::Shared,
            Way::Write | Way::Upgrade(_) => Side::Exclusive,
        }
    }

    fn queue_side(&self) -> Side {
        match self.way {
            // It enters alone, in its turn.
            Way::Upgradable => Side::Exclusive,
            _ => self.side(),
        }
    }

    fn form(&self) -> u64 {
        // Its waiters differ from readers.
        u64::from(matches!(self.way, Way::Upgradable))
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let what = match &self.way {
            Way::Downgrade(write, token, void_by) => {
                return call(&RWLOCK.downgrade, self.key())
                    .dated()
                    .arg(request.owner)
                    .arg(request.attempt)
                    .arg(millis(request.lease))
                    .arg(millis(request.lease + request.retention))
                    .arg(write)
                    .arg(token)
                    .maybe(*void_by);
            }
            Way::Read => "r".to_owned(),
            Way::Upgradable => "u".to_owned(),
            Way::Write => String::new(),
            Way::Upgrade(serial) => serial.to_string(),
        };
        let call = call(self.script(), self.key())
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.register.map(millis));
        self.member(call, request.address, request.owner).arg(what)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(self.script(), reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                abandoned: items.flag(4)?,
                lasts: items.maybe_span(5)?,
                serial: items.number(6)?,
                ..Grant::new(Token::from_u64(items.number(3)?))
            }),
            "busy" => Answer::Busy {
                remaining: items.maybe_span(2)?.unwrap_or(Duration::MAX),
                holder: items.text(3)?.to_owned(),
                called: items.maybe(4)?,
                entered: items.flag(5)?,
                beside: items.number::<u8>(5)? == 2,
            },
            "reader" => return Err(reader_asks(&self.way)),
            "lost" => return Err(lost(items.text(2).unwrap_or("expired"))),
            _ => Answer::neither(&items, STORED)?,
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        ScriptCall::new(&RWLOCK.renew, self.key())
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(letter(self.side()))
            .arg(request.serial)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let call = call(&RWLOCK.release, self.key())
            .can_do_with(1)
            .arg(request.owner.client())
            .arg(millis(request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.void_by);
        self.member(call, request.address, request.owner)
            .arg(letter(self.side()))
            .maybe(request.serial)
    }

    fn grants_ahead(&self) -> Option<u32> {
        // Readers enter together, and an upgrade waits in no queue.
        matches!(self.way, Way::Write).then_some(1)
    }

    /// Reads the token of the last write in a busy reply of `rwlock/write.lua`.
    fn last_token(&self, reply: &Value) -> Option<Token> {
        let items = Items::new(&RWLOCK.write, reply).ok()?;
        if items.len() < 7 || items.text(1).ok()? != "busy" {
            return None;
        }
        items.maybe(6).ok()?.map(Token::from_u64)
    }

    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        let call = call(&RWLOCK.withdraw, request.key)
            .arg(request.what.word())
            .arg(request.channel)
            .args(request.what.numbers());
        Some(call)
    }
}

impl Hold {
    /// Returns the script that begins it.
    const fn script(&self) -> &'static Script {
        match self.way {
            Way::Read | Way::Upgradable => &RWLOCK.read,
            Way::Write | Way::Upgrade(_) => &RWLOCK.write,
            Way::Downgrade(..) => &RWLOCK.downgrade,
        }
    }

    /// Appends the member of the queue for a waiter.
    fn member(
        &self,
        call: ScriptCall,
        address: Option<WaiterAddress<'_>>,
        owner: &Owner,
    ) -> ScriptCall {
        match address {
            Some(address) if address.has_order() => call.arg(address.with_owner(owner)),
            Some(address) if matches!(self.way, Way::Upgradable) => {
                call.arg(format_args!("{address} u"))
            }
            _ => call.maybe(address),
        }
    }
}

fn lost(over: &str) -> Error {
    let cause = loss(over).unwrap_or(LossCause::Expired);
    let message = format!("the hold that was to change is lost: {cause}");
    Error::new(ErrorKind::Lost(cause), message)
}

fn reader_asks(way: &Way) -> Error {
    let wanted = match way {
        Way::Upgradable => "an upgradable read",
        _ => "the write lock",
    };
    let message = format!(
        "the owner holds the read lock, and would wait for itself to get {wanted}; begin with upgradable_read()"
    );
    Error::new(ErrorKind::WouldDeadlock, message)
}

/// The state that `rwlock/inspect.lua` found.
pub(crate) struct Inspected {
    pub(crate) info: ReadWriteInfo,
    /// The write hold, if there is one.
    pub(crate) write: Option<ReadWriteHolder>,
    pub(crate) own_writes: u32,
    pub(crate) own_reads: u32,
}

/// Calls `rwlock/inspect.lua`.
pub(crate) fn inspect(key: &Key, owner: &str) -> ScriptCall {
    call(&RWLOCK.inspect, key).arg(owner)
}

pub(crate) fn inspected(name: &str, items: &Items<'_>) -> Result<Inspected, Error> {
    if items.text(1)? != "state" {
        return items.other(STORED);
    }
    let some = |at| {
        let text = items.text(at)?.to_owned();
        Ok::<_, Error>(Some(text).filter(|text| !text.is_empty()))
    };
    let token = items.maybe(2)?.map(Token::from_u64);
    let writer = some(3)?;
    let (now, count, remaining) = (items.number(0)?, items.number(4)?, items.span(5)?);
    let held = writer.clone().zip(token);
    let write = held.map(|(owner, token)| ReadWriteHolder {
        access: Access::Write,
        owner,
        count,
        token,
        age: age(now, token.as_u64()),
        remaining,
        metadata: None,
        note: None,
        forbidden: false,
        serial: token.as_u64(),
    });
    Ok(Inspected {
        info: ReadWriteInfo {
            name: name.to_owned(),
            token,
            writer,
            readers: items.number(6)?,
            upgradable: some(7)?,
            waiting_writers: items.number(8)?,
            waiting_readers: items.number(9)?,
        },
        write,
        own_writes: items.number(10)?,
        own_reads: items.number(11)?,
    })
}

/// Where `rwlock/holders.lua` goes on, and the read holds that it found.
pub(crate) type Page = (Option<String>, Vec<ReadWriteHolder>);

/// Calls `rwlock/holders.lua`.
pub(crate) fn holders(key: &Key, cursor: &str) -> ScriptCall {
    ScriptCall::new(&RWLOCK.holders, key).arg(cursor)
}

pub(crate) fn page(items: &Items<'_>) -> Result<Page, Error> {
    if items.text(1)? != "holds" {
        return items.other(STORED);
    }
    let now = items.number(0)?;
    let reader = |at| {
        let (serial, access) = (items.number(at + 2)?, items.text(at + 5)?);
        Ok(ReadWriteHolder {
            access: match access {
                "u" | "U" => Access::UpgradableRead,
                _ => Access::Read,
            },
            owner: items.text(at)?.to_owned(),
            count: items.number(at + 1)?,
            token: Token::from_u64(items.number(at + 3)?),
            age: age(now, serial),
            remaining: items.span(at + 4)?,
            metadata: None,
            note: None,
            forbidden: matches!(access, "R" | "U"),
            serial,
        })
    };
    let readers: Result<_, Error> = (3..items.len()).step_by(6).map(reader).collect();
    let cursor = items.text(2)?;
    Ok(((cursor != "0").then(|| cursor.to_owned()), readers?))
}

fn age(now: u64, since_micros: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(since_micros / 1000))
}

/// Calls `rwlock/force.lua` for this hold.
pub(crate) fn force(key: &Key, hold: &ReadWriteHolder, how: Force, client: &Client) -> ScriptCall {
    call(&RWLOCK.force, key)
        .can_do_with(1)
        .arg(letter(hold.access.side()))
        .arg(&hold.owner)
        .arg(hold.serial)
        .arg(how.word())
        .arg(millis(client.retention()))
        .arg(client.wake_channels())
}

/// Returns true if the hold existed, for this call or for an earlier copy of it.
pub(crate) fn forced(items: &Items<'_>) -> Result<bool, Error> {
    match items.text(1)? {
        "done" | "already" => Ok(true),
        "gone" => Ok(false),
        _ => items.other(STORED),
    }
}

/// Starts a call with the key of a lock and its parts.
fn call(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key).keys(PARTS.map(|part| key.shown_part(part)))
}

const fn letter(side: Side) -> &'static str {
    match side {
        Side::Exclusive => "w",
        Side::Shared => "r",
    }
}

/// The kind as the server stores it.
const STORED: &str = "rw:1";

/// The parts of a lock's key: waiting writers, waiting readers, their clients, deadlines of read
/// holds.
const PARTS: [&str; 4] = ["q", "r", "l", "d"];

#[cfg(test)]
mod tests {
    use redlatch_core::family::{Name, Prefix, Withdrawn};

    use self::replies::{decodes_anything, reads_anything};
    use super::*;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

    fn hold(way: Way) -> Hold {
        let identity = Identity {
            class: "".into(),
            key: Key::new(&Prefix::default(), &Name::parse("n").unwrap()),
        };
        Hold { identity, way }
    }

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        for way in [Way::Read, Way::Upgradable, Way::Write, Way::Upgrade(3)] {
            let hold = hold(way);
            decodes_anything(
                &[
                    "granted", "busy", "more", "late", "void", "reader", "lost", "kind",
                ],
                |reply| hold.acquired(reply),
            );
        }
        let hold = hold(Way::Read);
        decodes_anything(
            &["renewed", "late", "expired", "taken", "revoked", "gone"],
            |reply| hold.renewed(&RWLOCK.renew, reply),
        );
        decodes_anything(
            &["released", "expired", "already", "revoked", "taken", "gone"],
            |reply| hold.released(&RWLOCK.release, reply),
        );
        let withdrawn = ["found", "struck", "kind"];
        reads_anything(&RWLOCK.withdraw, &withdrawn, Withdrawn::read);
    }

    #[test]
    fn any_reply_about_the_lock_is_decoded_or_refused() {
        reads_anything(&RWLOCK.inspect, &["state", "kind"], |items| {
            inspected("n", items)
        });
        reads_anything(&RWLOCK.holders, &["holds", "kind"], page);
        let words = ["done", "already", "gone", "kind"];
        reads_anything(&RWLOCK.force, &words, forced);
    }
}
