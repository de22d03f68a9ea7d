//! The scripts of both layouts. No other file knows the order of their keys and arguments.

pub(crate) mod redisson;
pub(crate) mod setnx;

use redlatch_core::{
    Client, Error, ErrorKind,
    family::{Internals, Key, Name, NameError, Script, ScriptCall},
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
    pub(crate) channel: std::sync::Arc<str>,
}

impl Names {
    /// Validates a name and makes its keys. The channel is the key beside it.
    pub(crate) fn new(client: &Client, kind: &str, name: &str) -> Result<Self, NameError> {
        let key = client.foreign_key(&Name::parse(name)?)?;
        let side = client.key_beside(&key, kind);
        let channel = side.as_str().into();
        Ok(Self { key, side, channel })
    }

    /// Begins a call with both keys.
    fn call(&self, script: &'static Script) -> ScriptCall {
        ScriptCall::new(script, &self.key)
            .key(&self.key)
            .key(&self.side)
    }
}

/// Returns the error of the server if it refused the message that a release sends. It is the item
/// behind the verdict and the count.
pub(crate) fn message_refused(reply: &Value) -> Option<&str> {
    reply.as_array()?.get(3)?.as_str()
}

/// Returns the error of an invalid name.
pub(crate) fn invalid_name(error: &NameError) -> Error {
    Error::new(ErrorKind::InvalidName, error.to_string())
}

#[cfg(test)]
mod tests;
