//! The scripts of both layouts. No other file knows the order of their keys and arguments.

pub(crate) mod redisson;
pub(crate) mod setnx;

use std::sync::Arc;

use redlatch_core::{
    Error,
    family::{Handle, Identity, Internals, Script, ScriptCall},
    runtime::Value,
};

/// The keys and the channel of one object.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Its key is the name itself.
    pub(crate) identity: Identity,
    /// The key beside it, in the same slot, with the data of this family.
    pub(crate) side: String,
    /// The channel on which waiters are told that the name is free.
    pub(crate) channel: Arc<str>,
}

impl Names {
    /// Makes the keys of a valid name. The channel is the key beside it.
    pub(crate) fn of(handle: &Handle, kind: &str) -> Result<Self, Error> {
        let identity = handle.identity()?;
        let side = handle.client().key_beside(&identity.key, kind);
        Ok(Self {
            identity,
            channel: side.as_str().into(),
            side,
        })
    }

    /// Begins a call with both keys.
    fn call(&self, script: &'static Script) -> ScriptCall {
        ScriptCall::new(script, &self.identity.key).key(&self.side)
    }
}

/// Returns the error of the server if it refused the message that a release sends. It is the item
/// behind the verdict and the count.
pub(crate) fn message_refused(reply: &Value) -> Option<&str> {
    reply.as_array()?.get(3)?.as_str()
}

#[cfg(test)]
mod tests;
