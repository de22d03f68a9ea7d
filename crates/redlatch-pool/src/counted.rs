//! The pool's implementation of the core's `Primitive`.

use std::sync::Arc;

use redlatch_core::{
    Error, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Discipline, HoldNames, Key, Primitive, ReleaseReply,
        ReleaseRequest, RenewRequest, Renewed, ScriptCall, WithdrawRequest, Withdrawn,
    },
    runtime::Value,
};

use crate::{
    Flavour,
    scripts::{AcquireScript, ReleaseScript, RenewScript, Verdict, WithdrawScript},
};

/// A number of permits of one pool.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) flavour: Flavour,
    pub(crate) key: Key,
    pub(crate) class: Arc<str>,
    pub(crate) need: u32,
    pub(crate) size: Option<u32>,
}

impl Counted {
    fn acquisition(&self) -> AcquireScript<'_> {
        AcquireScript {
            key: &self.key,
            kind: self.flavour.stored,
            need: self.need,
            size: self.size,
            each: self.flavour.each,
        }
    }

    /// Returns the names of the holds that `attempt` makes, without the client.
    fn holds(&self, attempt: &AttemptId) -> Vec<String> {
        let attempt = attempt.suffix().to_string();
        if self.flavour.each {
            (0..self.need).map(|at| format!("{attempt}:{at}")).collect()
        } else {
            vec![attempt]
        }
    }
}

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
        self.acquisition().call(request)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        self.acquisition().decode(reply)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        RenewScript::of(&self.key, self.flavour.stored, request)
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        RenewScript::decode(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        ReleaseScript::of(&self.key, self.flavour.stored, self.need, request)
            .call(&self.holds(request.attempt))
    }

    fn grants_ahead(&self) -> Option<u32> {
        // Each permit with an id is a hold, whose id may be in another process before the grant is
        // confirmed.
        (!self.flavour.each).then_some(self.need)
    }

    fn tells_by_reply(&self, reply: &Value) -> bool {
        ReleaseScript::tells(reply)
    }

    fn last_token(&self, reply: &Value) -> Option<Token> {
        AcquireScript::last_token(reply)
    }

    fn withdraw(&self, request: &WithdrawRequest<'_>) -> Option<ScriptCall> {
        Some(WithdrawScript::call(self.flavour.stored, request))
    }

    fn withdrawn(&self, reply: &Value) -> Result<Withdrawn, Error> {
        WithdrawScript::decode(reply)
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        let verdicts = ReleaseScript::decode(reply)?;
        // Permits that are holds of their own end together only by an undo, whose answer is not
        // read.
        Ok(verdicts.first().map_or(ReleaseReply::Gone, |verdict| {
            Verdict::release_reply(*verdict)
        }))
    }
}
