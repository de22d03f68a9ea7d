//! Both layouts' implementations of the core's `Primitive`.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error,
    family::{
        AcquireRequest, Answer, Key, Primitive, ReleaseReply, ReleaseRequest, RenewRequest,
        Renewed, ScriptCall,
    },
    runtime::Value,
};

use crate::scripts::{Names, message_refused, redisson, setnx};

/// A name in the layout of a string that is set if it is absent.
#[derive(Clone, Debug)]
pub(crate) struct SetNxName {
    pub(crate) names: Names,
    pub(crate) class: Arc<str>,
    /// The longest time between two requests of a waiter.
    pub(crate) retry: Duration,
}

impl Primitive for SetNxName {
    fn kind(&self) -> &'static str {
        "set_nx"
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn key(&self) -> &Key {
        &self.names.key
    }

    fn channel(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.names.channel))
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        setnx::acquire(&self.names, request)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        setnx::acquired(self.retry, reply)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        setnx::renew(&self.names, request)
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        setnx::renewed(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        setnx::release(&self.names, request)
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        setnx::released(reply)
    }

    fn message_refused<'a>(&self, reply: &'a Value) -> Option<&'a str> {
        message_refused(reply)
    }
}

/// A name in the layout of Redisson's `RLock`.
#[derive(Clone, Debug)]
pub(crate) struct RedissonName {
    pub(crate) names: Names,
    pub(crate) class: Arc<str>,
}

impl Primitive for RedissonName {
    fn kind(&self) -> &'static str {
        "redisson"
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn key(&self) -> &Key {
        &self.names.key
    }

    fn channel(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.names.channel))
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        redisson::acquire(&self.names, request)
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        redisson::acquired(reply)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        redisson::renew(&self.names, request)
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        redisson::renewed(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        redisson::release(&self.names, request)
    }

    fn released(&self, reply: &Value) -> Result<ReleaseReply, Error> {
        redisson::released(reply)
    }

    fn message_refused<'a>(&self, reply: &'a Value) -> Option<&'a str> {
        message_refused(reply)
    }
}
