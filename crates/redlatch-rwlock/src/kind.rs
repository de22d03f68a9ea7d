//! The read-write lock's implementation of the core's `Primitive`.

use std::sync::Arc;

use redlatch_core::{
    Client, Error, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Discipline, Internals, Key, Name, Primitive,
        ReleaseReply, ReleaseRequest, RenewRequest, Renewed, ScriptCall, Side, WithdrawRequest,
        Withdrawn,
    },
    runtime::Value,
};

use crate::scripts::{
    AcquireScript, DowngradeScript, Names, ReleaseScript, RenewScript, WithdrawScript,
};

/// One way to hold one lock.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) names: Names,
    pub(crate) class: Arc<str>,
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

impl Names {
    pub(crate) fn new(client: &Client, name: &Name) -> Self {
        Self::of(&client.key(name))
    }

    fn of(key: &Key) -> Self {
        Self { key: key.clone() }
    }
}

impl Way {
    const fn side(&self) -> Side {
        match self {
            Self::Read | Self::Upgradable | Self::Downgrade(..) => Side::Shared,
            Self::Write | Self::Upgrade(_) => Side::Exclusive,
        }
    }
}

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
        &self.names.key
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
        let names = &self.names;
        match &self.way {
            Way::Downgrade(write, token, void_by) => DowngradeScript {
                names,
                request,
                write,
                token: *token,
                void_by: *void_by,
            }
            .call(),
            way => AcquireScript {
                names,
                request,
                way,
            }
            .call(),
        }
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        AcquireScript::decode(&self.way, reply)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        RenewScript {
            names: &self.names,
            side: self.side(),
            request,
        }
        .call()
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        RenewScript::decode(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        ReleaseScript {
            names: &self.names,
            way: &self.way,
            side: self.side(),
            request,
        }
        .call()
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        ReleaseScript::decode(reply)
    }

    fn grants_ahead(&self) -> Option<u32> {
        // Readers enter together, and an upgrade waits in no queue.
        matches!(self.way, Way::Write).then_some(1)
    }

    fn last_token(&self, reply: &Value) -> Option<Token> {
        AcquireScript::last_token(reply)
    }

    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        let names = Names::of(request.key);
        let names = &names;
        Some(WithdrawScript { names, request }.call())
    }

    fn withdrawn(&self, reply: &Value) -> Result<Withdrawn, Error> {
        WithdrawScript::decode(reply)
    }
}
