//! Scripts, calls of them, and what became of a call.

use redlatch_lua::Source;
use sha1_smol::Sha1;

use crate::{
    protocol::{
        classify::{Class, Obstacle, Redirect, classify},
        name::Key,
    },
    seam::{Command, Outcome, ServerError, Value},
};

/// A script and the digest by which the server knows it.
#[derive(Debug)]
pub struct Script {
    source: &'static Source,
    digest: String,
}

impl Script {
    /// Computes the digest of `source`. Meant for a `static LazyLock`.
    pub fn new(source: &'static Source) -> Self {
        Self {
            source,
            digest: Sha1::from(source.text).digest().to_string(),
        }
    }

    /// Returns `<primitive>/<file>`.
    pub const fn name(&self) -> &'static str {
        self.source.name
    }

    /// Returns the text.
    pub const fn text(&self) -> &'static str {
        self.source.text
    }
}

/// One call of a script: everything but `by`, which only the link that sends it can tell.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    script: &'static Script,
    slot: u16,
    keys: Vec<String>,
    /// How many of them it cannot do without.
    needed: Option<usize>,
    args: Vec<String>,
    dated: bool,
}

impl ScriptCall {
    /// Starts a call in the slot of `key`.
    pub const fn new(script: &'static Script, key: &Key) -> Self {
        Self::in_slot(script, key.slot())
    }

    /// Starts a call whose keys are in `slot`.
    pub(crate) const fn in_slot(script: &'static Script, slot: u16) -> Self {
        Self {
            script,
            slot,
            keys: Vec::new(),
            needed: None,
            args: Vec::new(),
            dated: false,
        }
    }

    /// Marks the call as one whose first argument is `by`; the sender puts it there.
    #[must_use]
    pub const fn dated(mut self) -> Self {
        self.dated = true;
        self
    }

    /// Appends a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Says that the script can do with the first `keys` of its keys. While a slot moves from node to node, a call that names a key which is not
    /// there is refused; it then goes again with those alone.
    #[must_use]
    pub const fn can_do_with(mut self, keys: usize) -> Self {
        self.needed = Some(keys);
        self
    }

    /// Returns the call without the keys that it can do without, if it has any.
    pub(crate) fn bare(&self) -> Option<Self> {
        let needed = self.needed.filter(|&needed| needed < self.keys.len())?;
        Some(Self {
            keys: self.keys[..needed].to_vec(),
            ..self.clone()
        })
    }

    /// Returns the script.
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns the slot of all its keys.
    pub const fn slot(&self) -> u16 {
        self.slot
    }

    pub(crate) fn evalsha(&self, by: u64) -> Command {
        self.command("EVALSHA", &self.script.digest, by)
    }

    pub(crate) fn eval(&self, by: u64) -> Command {
        self.command("EVAL", self.script.text(), by)
    }

    fn command(&self, verb: &str, script: &str, by: u64) -> Command {
        let texts = self.keys.iter().chain(&self.args);
        let bytes: usize = texts.map(String::len).sum();
        let mut command = Command::with_capacity(
            self.keys.len() + self.args.len() + 4,
            bytes + script.len() + 32,
        );
        command.push(verb);
        command.push(script);
        command.push(self.keys.len().to_string());
        for key in &self.keys {
            command.push(key);
        }
        if self.dated {
            command.push(by.to_string());
        }
        for arg in &self.args {
            command.push(arg);
        }
        command
    }
}

/// The items of a script's reply, checked one by one as they are read.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    script: &'static Script,
    reply: &'a Value,
    items: &'a [Value],
}

impl<'a> Items<'a> {
    /// Looks at a reply of `script`, which has to be a list.
    pub fn new(script: &'static Script, reply: &'a Value) -> Result<Self, crate::Error> {
        let items = reply
            .as_array()
            .ok_or_else(|| crate::Error::bad_reply(script.name(), reply))?;
        Ok(Self {
            script,
            reply,
            items,
        })
    }

    /// Returns how many items there are.
    pub const fn len(&self) -> usize {
        self.items.len()
    }

    /// Tells whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the text at `at`.
    pub fn text(&self, at: usize) -> Result<&'a str, crate::Error> {
        self.items
            .get(at)
            .and_then(Value::as_str)
            .ok_or_else(|| self.bad())
    }

    /// Returns the whole number at `at`.
    pub fn number<N: TryFrom<i64>>(&self, at: usize) -> Result<N, crate::Error> {
        let number = self.items.get(at).and_then(Value::as_int);
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| self.bad())
    }

    /// Returns the error of a reply that makes no sense.
    pub fn bad(&self) -> crate::Error {
        crate::Error::bad_reply(self.script.name(), self.reply)
    }
}

/// Returns `span` as scripts take it, in whole ms.
pub fn millis(span: std::time::Duration) -> String {
    span.as_millis().to_string()
}

/// What became of a call, as far as this process can know.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// The script ran and replied.
    Replied(Value),
    /// It did not, or nobody knows.
    Failed(Failure),
}

/// A call without a reply of the script.
#[derive(Clone, Debug)]
pub enum Failure {
    /// It never left this process; the text says why.
    NotSent(String),
    /// It may have run or may still run; the text says what went wrong.
    Unknown(String),
    /// The server refused it for the moment.
    Refused(Obstacle, ServerError),
    /// Another node is in charge.
    Redirected(Redirect),
    /// It will never succeed.
    Fatal(crate::Error),
}

impl CallOutcome {
    /// Classifies what a connection tells.
    pub(crate) fn of(outcome: Outcome) -> Self {
        let failure = match outcome {
            Outcome::Replied(Ok(value)) => return Self::Replied(listed(value)),
            Outcome::Replied(Err(error)) => match classify(&error.code, &error.message) {
                Class::NoScript => Failure::Unknown("the server lost the script twice".to_owned()),
                Class::Redirect(redirect) => Failure::Redirected(redirect),
                Class::Retry(obstacle) => Failure::Refused(obstacle, error),
                Class::Unknown => Failure::Unknown(error.to_string()),
                Class::Fatal(refusal) => Failure::Fatal(crate::Error::refused(refusal, error)),
            },
            Outcome::NotSent(why) => Failure::NotSent(why),
            Outcome::Unknown(why) => Failure::Unknown(why),
        };
        Self::Failed(failure)
    }
}

impl Failure {
    /// Tells whether the script surely did nothing.
    pub(crate) const fn is_not_executed(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }

    /// Classifies the want of a connection: what passes is not fatal.
    pub(crate) fn of_session(error: crate::Error) -> Self {
        if error.kind() == crate::ErrorKind::Unavailable {
            return Self::NotSent(error.to_string());
        }
        Self::Fatal(error)
    }
}

/// Returns the list that a script's reply stands for: a text has its items with a space between any two, since a list costs the server more.
pub fn listed(reply: Value) -> Value {
    let Value::Bulk(text) = reply else {
        return reply;
    };
    let items = text.split(|&byte| byte == b' ');
    Value::Array(items.map(|item| Value::Bulk(item.to_vec())).collect())
}

/// Returns the server's time that a script's reply starts with.
pub(crate) fn server_millis(reply: &Value) -> Option<u64> {
    reply.as_array()?.first()?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_for_the_list_of_its_items() {
        let text = Value::Bulk(b"1795300000123 granted 1 1795300000123456 0 ".to_vec());
        let list = listed(text);
        let items: Vec<_> = list.as_array().unwrap().iter().map(Value::as_str).collect();
        let expected = ["1795300000123", "granted", "1", "1795300000123456", "0", ""];
        assert_eq!(items, expected.map(Some));
        assert_eq!(server_millis(&list), Some(1_795_300_000_123));
        let other = Value::Array(vec![Value::Int(1)]);
        assert_eq!(listed(other.clone()), other);
    }
}
