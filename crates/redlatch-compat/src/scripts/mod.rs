//! The scripts of both layouts. No other file knows the order of their keys and arguments.

pub(crate) mod redisson;
pub(crate) mod setnx;

use std::sync::Arc;

use redlatch_core::{
    Error,
    family::{Handle, Internals, Key, Script, ScriptCall},
    runtime::Value,
};

/// The keys and the channel of one object.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The name itself.
    pub(crate) key: Key,
    /// The key beside it, in the same slot, with the data of this family.
    pub(crate) side: String,
    /// The channel on which waiters are told that the name is free.
    pub(crate) channel: Arc<str>,
    pub(crate) class: Arc<str>,
}

impl Names {
    /// Makes the keys of a valid name. The channel is the key beside it.
    pub(crate) fn of(handle: &Handle, kind: &str) -> Result<Self, Error> {
        let key = handle.key()?.clone();
        let side = handle.client().key_beside(&key, kind);
        Ok(Self {
            key,
            channel: side.as_str().into(),
            side,
            class: handle.label(),
        })
    }

    /// Begins a call with both keys.
    fn call(&self, script: &'static Script) -> ScriptCall {
        ScriptCall::new(script, &self.key).key(&self.side)
    }
}

/// Returns the error of the server if it refused the message that a release sends. It is the item
/// behind the verdict and the count.
pub(crate) fn message_refused(reply: &Value) -> Option<&str> {
    reply.as_array()?.get(3)?.as_str()
}

#[cfg(test)]
mod tests;
