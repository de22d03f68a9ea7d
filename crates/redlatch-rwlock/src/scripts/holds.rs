//! The scripts that begin, change, renew and end holds.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, ErrorKind, LossCause, Owner, Token,
    family::{
        AcquireRequest, Answer, Discipline, Grant, Items, Key, Primitive, ReleaseReply,
        ReleaseRequest, RenewRequest, Renewed, Script, ScriptCall, Side, WithdrawRequest,
        Withdrawn, loss, millis,
    },
    runtime::Value,
};
use redlatch_lua::RWLOCK;

use super::{STORED, call, letter};
use crate::kind::{Hold, Way};

impl Primitive for Hold {
    fn kind(&self) -> &'static str {
        match self.way.side() {
            Side::Shared => "read_lock",
            Side::Exclusive => "write_lock",
        }
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

    fn side(&self) -> Side {
        self.way.side()
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
                return call(&RWLOCK.downgrade, &self.key)
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
        call(self.script(), &self.key)
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.register.map(millis))
            .arg(self.member(request.address, request.owner))
            .arg(what)
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
            "more" => Answer::Unfinished,
            "late" => Answer::Late,
            "void" => Answer::Void,
            "reader" => return Err(reader_asks(&self.way)),
            "lost" => return Err(lost(items.text(2).unwrap_or("expired"))),
            _ => return items.other(STORED),
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        ScriptCall::new(&RWLOCK.renew, &self.key)
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(letter(self.side()))
            .arg(request.serial)
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        Renewed::decode(&RWLOCK.renew, reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        call(&RWLOCK.release, &self.key)
            .can_do_with(1)
            .arg(request.owner.client())
            .arg(millis(request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.void_by)
            .arg(self.member(request.address, request.owner))
            .arg(letter(self.side()))
            .maybe(request.serial)
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        ReleaseReply::decode(&RWLOCK.release, reply)
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

    fn withdrawn(&self, reply: &Value) -> Result<Withdrawn, Error> {
        Withdrawn::decode(&RWLOCK.withdraw, reply)
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

    /// Returns the member of the queue for a waiter, whose address may end with an order.
    fn member(&self, address: &str, owner: &Owner) -> String {
        match address.split_once(" g") {
            Some((address, order)) => {
                let owner = owner.suffix().to_string();
                format!("{address} {} g{order}", owner.trim_start_matches(':'))
            }
            None if address.is_empty() => String::new(),
            None => match self.way {
                Way::Upgradable => format!("{address} u"),
                _ => address.to_owned(),
            },
        }
    }
}

fn lost(over: &str) -> Error {
    let cause = loss(over).unwrap_or(LossCause::Expired);
    Error::new(
        ErrorKind::Lost(cause),
        format!("the hold that was to change is lost: {cause}"),
    )
}

fn reader_asks(way: &Way) -> Error {
    let wanted = match way {
        Way::Upgradable => "an upgradable read",
        _ => "the write lock",
    };
    Error::new(
        ErrorKind::WouldDeadlock,
        format!(
            "the owner holds the read lock, and would wait for itself to get {wanted}; begin with upgradable_read()"
        ),
    )
}
