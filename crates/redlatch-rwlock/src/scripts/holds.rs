//! The scripts that begin, change, renew and end holds.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, LossCause, Owner, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Grant, Items, ReleaseReply, ReleaseRequest,
        RenewRequest, Renewed, Script, ScriptCall, Side, WithdrawRequest, Withdrawn, loss, millis,
    },
    runtime::Value,
};
use redlatch_lua::RWLOCK;

use super::{Names, letter, wrong_kind};
use crate::kind::Way;

static READ: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.read));
static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.write));
static DOWNGRADE: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.downgrade));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.release));
static WITHDRAW: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.withdraw));

/// `rwlock/read.lua` and `rwlock/write.lua`.
pub(crate) struct AcquireScript<'a> {
    pub(crate) names: &'a Names,
    pub(crate) request: &'a AcquireRequest<'a>,
    pub(crate) way: &'a Way,
}

impl AcquireScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let Self {
            names,
            request,
            way,
        } = self;
        let (script, what) = match way {
            Way::Read | Way::Downgrade(..) => (&READ, "r".to_owned()),
            Way::Upgradable => (&READ, "u".to_owned()),
            Way::Write => (&WRITE, String::new()),
            Way::Upgrade(serial) => (&WRITE, serial.to_string()),
        };
        names
            .call(script)
            .dated()
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.register.map(millis))
            .arg(member(way, request.address, request.owner))
            .arg(what)
    }

    pub(crate) fn decode(way: &Way, reply: &Value) -> Result<Answer, Error> {
        let script = match way {
            Way::Read | Way::Upgradable => &READ,
            Way::Write | Way::Upgrade(_) => &WRITE,
            Way::Downgrade(..) => &DOWNGRADE,
        };
        let items = Items::new(script, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                token: Token::from_u64(items.number(3)?),
                abandoned: items.number::<u8>(4)? == 1,
                lasts: items.maybe(5)?.map(Duration::from_millis),
                serial: items.number(6)?,
                unqueued: false,
            }),
            "busy" => Answer::Busy {
                remaining: items.maybe(2)?.map_or(Duration::MAX, Duration::from_millis),
                holder: items.text(3)?.to_owned(),
                called: items.maybe(4)?,
                entered: items.number::<u8>(5)? == 1,
                beside: items.number::<u8>(5)? == 2,
            },
            "more" => Answer::Unfinished,
            "late" => Answer::Late,
            "void" => Answer::Void,
            "reader" => return Err(reader_asks(way)),
            "lost" => return Err(lost(items.text(2).unwrap_or("expired"))),
            "kind" => return Err(wrong_kind(items.text(2)?)),
            _ => return Err(items.bad()),
        })
    }

    /// Reads the token of the last write in a busy reply of `rwlock/write.lua`.
    pub(crate) fn last_token(reply: &Value) -> Option<Token> {
        let items = Items::new(&WRITE, reply).ok()?;
        if items.len() < 7 || items.text(1).ok()? != "busy" {
            return None;
        }
        items.maybe(6).ok()?.map(Token::from_u64)
    }
}

/// `rwlock/downgrade.lua`.
pub(crate) struct DowngradeScript<'a> {
    pub(crate) names: &'a Names,
    pub(crate) request: &'a AcquireRequest<'a>,
    pub(crate) write: &'a AttemptId,
    pub(crate) token: Token,
    /// The last server time at which a copy of the write may act, if copies may be under way.
    pub(crate) void_by: Option<u64>,
}

impl DowngradeScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let request = self.request;
        self.names
            .call(&DOWNGRADE)
            .dated()
            .arg(request.owner)
            .arg(request.attempt)
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(self.write)
            .arg(self.token)
            .maybe(self.void_by)
    }
}

/// `rwlock/withdraw.lua`.
pub(crate) struct WithdrawScript<'a> {
    pub(crate) names: &'a Names,
    pub(crate) request: &'a WithdrawRequest<'a>,
}

impl WithdrawScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let what = &self.request.what;
        let call = self
            .names
            .call(&WITHDRAW)
            .arg(what.word())
            .arg(self.request.channel);
        let numbers = what.numbers().iter();
        numbers.fold(call, ScriptCall::arg)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Withdrawn, Error> {
        Withdrawn::decode(&WITHDRAW, reply)
    }
}

/// `rwlock/renew.lua`.
pub(crate) struct RenewScript<'a> {
    pub(crate) names: &'a Names,
    pub(crate) side: Side,
    pub(crate) request: &'a RenewRequest<'a>,
}

impl RenewScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let Self {
            names,
            side,
            request,
        } = self;
        ScriptCall::new(&RENEW, &names.key)
            .dated()
            .key(names.key.as_str())
            .arg(request.owner.client())
            .arg(millis(request.lease))
            .arg(millis(request.lease + request.retention))
            .arg(request.owner.suffix())
            .arg(letter(*side))
            .arg(request.serial.to_string())
    }

    pub(crate) fn decode(reply: &Value) -> Result<Renewed, Error> {
        Renewed::decode(&RENEW, reply)
    }
}

/// `rwlock/release.lua`.
pub(crate) struct ReleaseScript<'a> {
    pub(crate) names: &'a Names,
    pub(crate) way: &'a Way,
    pub(crate) side: Side,
    pub(crate) request: &'a ReleaseRequest<'a>,
}

impl ReleaseScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let request = self.request;
        self.names
            .call(&RELEASE)
            .can_do_with(1)
            .arg(request.owner.client())
            .arg(millis(request.retention))
            .arg(request.owner.suffix())
            .arg(request.attempt.suffix())
            .maybe(request.void_by)
            .arg(member(self.way, request.address, request.owner))
            .arg(letter(self.side))
            .maybe(request.serial)
    }

    pub(crate) fn decode(reply: &Value) -> Result<ReleaseReply, Error> {
        ReleaseReply::decode(&RELEASE, reply)
    }
}

/// Returns the member of the queue for a waiter, whose address may end with an order.
fn member(way: &Way, address: &str, owner: &Owner) -> String {
    match address.split_once(" g") {
        Some((address, order)) => {
            let owner = owner.to_string();
            // An owner is `<client>:<n>`.
            let n = owner.rsplit(':').next().unwrap_or_default();
            format!("{address} {n} g{order}")
        }
        None if address.is_empty() => String::new(),
        None => match way {
            Way::Upgradable => format!("{address} u"),
            _ => address.to_owned(),
        },
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
