//! Scripts, script calls, and the outcomes of calls.

use std::fmt::Display;

use redlatch_lua::List;
pub use redlatch_lua::Source as Script;
use sha1_smol::Sha1;

use crate::{
    protocol::{
        classify::{Class, Obstacle, Redirect, Refusal, classify},
        name::Key,
        remains::Effect,
        server_clock::whole_millis,
    },
    runtime::{Command, Outcome, ServerError, Value},
};

/// Keeps a script that is made at run time, for as long as the process lives.
pub fn kept_script(name: &'static str, text: String) -> &'static Script {
    let digest = Sha1::from(&text).digest().to_string();
    Box::leak(Box::new(Script {
        name,
        text: text.leak(),
        digest: digest.leak(),
        list: None,
    }))
}

/// One call of a script, without the last server time at which it may act. The link adds that time
/// when it sends the call.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    script: &'static Script,
    slot: u16,
    /// All keys, followed by all arguments.
    items: Command,
    keys: usize,
    /// The number of keys that it requires; the others are optional.
    needed: Option<usize>,
    pub(super) dated: bool,
    /// Whether it never goes together with others.
    alone: bool,
}

impl ScriptCall {
    /// Creates a call with `key` as the first key, in its slot.
    pub fn new(script: &'static Script, key: &Key) -> Self {
        Self::in_slot(script, key.slot()).key(key.as_str())
    }

    /// Creates a call whose keys, none so far, are in `slot`.
    pub fn in_slot(script: &'static Script, slot: u16) -> Self {
        Self::with_room(script, slot, 12, 256)
    }

    /// Creates a call with room for so many keys and arguments of so many bytes in total.
    pub(crate) fn with_room(
        script: &'static Script,
        slot: u16,
        items: usize,
        bytes: usize,
    ) -> Self {
        Self {
            script,
            slot,
            items: Command::with_capacity(items, bytes),
            keys: 0,
            needed: None,
            dated: false,
            alone: false,
        }
    }

    /// Marks the call as one whose first argument is `act_before`, the last server time at which it
    /// may act. The sender inserts that argument.
    #[must_use]
    pub const fn dated(mut self) -> Self {
        self.dated = true;
        self
    }

    /// Appends a key. All keys come before the first argument.
    #[must_use]
    pub fn key(mut self, key: impl Display) -> Self {
        debug_assert_eq!(self.keys, self.items.len(), "keys come first");
        self.keys += 1;
        self.arg(key)
    }

    /// Appends several keys.
    #[must_use]
    pub fn keys(self, keys: impl IntoIterator<Item: Display>) -> Self {
        keys.into_iter().fold(self, Self::key)
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Display) -> Self {
        self.items.write(arg);
        self
    }

    /// Appends several arguments.
    #[must_use]
    pub fn args(self, args: impl IntoIterator<Item: Display>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Appends an argument of any bytes.
    #[must_use]
    pub fn bytes(mut self, arg: &[u8]) -> Self {
        self.items.push(arg);
        self
    }

    /// Appends an argument; an empty one for `None`.
    #[must_use]
    pub fn maybe(self, arg: Option<impl Display>) -> Self {
        match arg {
            Some(arg) => self.arg(arg),
            None => self.arg(""),
        }
    }

    /// Declares that the script requires only the first `keys` of its keys. While a slot moves
    /// between nodes, the server refuses a call with a missing key. The call is then repeated with
    /// the required keys only.
    #[must_use]
    pub const fn can_do_with(mut self, keys: usize) -> Self {
        self.needed = Some(keys);
        self
    }

    /// Declares that the call is too long to go together with others.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Returns the form of its script's entries, if the call has one entry and may go together with
    /// others.
    pub(crate) fn list(&self) -> Option<List> {
        self.script.list.filter(|list| {
            let args = self.items.len() - self.keys + usize::from(self.dated);
            !self.alone && self.keys == list.keys && args == list.shared + list.own
        })
    }

    /// Returns all keys.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.items.args().take(self.keys)
    }

    /// Returns all arguments but `act_before`.
    pub(super) fn all_args(&self) -> impl Iterator<Item = &[u8]> {
        self.items.args().skip(self.keys)
    }

    /// Returns the call without its optional keys, if it has any.
    pub(crate) fn bare(&self) -> Option<Self> {
        let needed = self.needed.filter(|&needed| needed < self.keys)?;
        let mut items = Command::with_capacity(self.items.len(), self.items.payload_len());
        let (keys, args) = (self.items.args(), self.items.args());
        let kept = keys.take(needed).chain(args.skip(self.keys));
        kept.for_each(|item| items.push(item));
        Some(Self {
            items,
            keys: needed,
            ..*self
        })
    }

    /// Tells whether it is a call without its optional keys.
    pub(crate) fn is_bare(&self) -> bool {
        self.needed == Some(self.keys)
    }

    /// Returns the script.
    pub const fn script(&self) -> &'static Script {
        self.script
    }

    /// Returns the slot of all its keys.
    pub const fn slot(&self) -> u16 {
        self.slot
    }

    pub(crate) fn evalsha(&self, act_before: u64) -> Command {
        self.command("EVALSHA", self.script.digest, act_before)
    }

    pub(crate) fn eval(&self, act_before: u64) -> Command {
        self.command("EVAL", self.script.text, act_before)
    }

    fn command(&self, verb: &str, script: &str, act_before: u64) -> Command {
        let bytes = self.items.payload_len() + script.len() + 32;
        let mut command = Command::with_capacity(self.items.len() + 4, bytes);
        command.push(verb);
        command.push(script);
        command.write(self.keys);
        let mut items = self.items.args();
        let keys = items.by_ref().take(self.keys);
        keys.for_each(|key| command.push(key));
        if self.dated {
            command.write(act_before);
        }
        items.for_each(|arg| command.push(arg));
        command
    }
}

/// Returns `span` in whole milliseconds, the form that scripts take.
pub fn millis(span: std::time::Duration) -> u64 {
    whole_millis(span)
}

/// The outcome of a call, as far as this process can know it.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// The script ran and replied.
    Replied(Value),
    /// The script ran without the optional keys of the call, since the keys are split between two
    /// nodes. A release is repeated with all of them.
    Bare(Value),
    /// There is no reply of the script; it may still have run.
    Failed(Failure),
}

/// A call without a reply of the script.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The call never left this process. The text gives the reason.
    NotSent(String),
    /// The script may have run or may still run. The text describes the failure.
    Unknown(String),
    /// The server answered with an error of unknown meaning. The script may have run.
    Strange(ServerError),
    /// The server refused the call for the moment.
    Refused(Obstacle, ServerError),
    /// Another node owns the slot.
    Redirected(Redirect),
    /// The call can never succeed, and the script has not run.
    Fatal(crate::Error),
    /// The server stopped the script, and no other try succeeds. Its earlier writes stay.
    Halted(Refusal, crate::Error),
}

impl CallOutcome {
    /// Classifies the outcome that a connection reports.
    pub(crate) fn of(outcome: Outcome) -> Self {
        Self::Failed(match outcome {
            Outcome::Replied(Ok(value)) => return Self::Replied(value),
            Outcome::Replied(Err(error)) => Failure::of_reply(error),
            Outcome::NotSent(why) => Failure::NotSent(why),
            Outcome::Unknown(why) => Failure::Unknown(why),
        })
    }
}

impl Failure {
    /// Classifies an error reply.
    pub(crate) fn of_reply(error: ServerError) -> Self {
        match classify(&error.code, &error.message) {
            Class::NoScript => Self::Unknown("the server lost the script twice".to_owned()),
            Class::Redirect(redirect) => Self::Redirected(redirect),
            Class::Retry(obstacle) => Self::Refused(obstacle, error),
            Class::Unknown => Self::Strange(error),
            Class::Fatal(refusal) => Self::Fatal(crate::Error::refused(refusal, error)),
            Class::Halted(refusal) => {
                Self::Halted(refusal, crate::Error::refused(refusal, error).in_doubt())
            }
        }
    }

    /// Returns what is certain about the script.
    pub(crate) const fn effect(&self) -> Effect {
        match self {
            Self::Unknown(_) | Self::Strange(_) => Effect::Unknown,
            Self::Halted(refusal, _) => Effect::Stopped(*refusal),
            Self::NotSent(_) | Self::Refused(..) | Self::Redirected(_) | Self::Fatal(_) => {
                Effect::Nothing
            }
        }
    }

    /// Tells whether the script certainly changed nothing.
    pub(crate) fn is_not_executed(&self) -> bool {
        self.effect() == Effect::Nothing
    }

    /// Tells whether another try cannot succeed.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::Fatal(_) | Self::Halted(..))
    }

    /// Classifies a failure to get a session. A transient one is not fatal.
    pub(crate) fn of_session(error: crate::Error) -> Self {
        if error.kind() == crate::ErrorKind::Unavailable {
            return Self::NotSent(error.to_string());
        }
        Self::Fatal(error)
    }
}

#[cfg(test)]
mod tests {
    use redlatch_lua::REENTRANT;

    use super::*;
    use crate::protocol::name::key;

    static SCRIPT: &Script = &REENTRANT.acquire;

    #[test]
    fn call_consists_of_keys_deadline_and_arguments() {
        let call = ScriptCall::in_slot(SCRIPT, key("x").slot()).dated();
        let call = call
            .can_do_with(1)
            .key("k")
            .key("part")
            .arg("")
            .arg(7)
            .maybe(Some("z"));
        let call = call.maybe(None::<u8>);
        let digest = SCRIPT.digest;
        let all = ["EVALSHA", digest, "2", "k", "part", "9", "", "7", "z", ""];
        assert_eq!(call.evalsha(9).words(), all);
        let bare = ["EVALSHA", digest, "1", "k", "9", "", "7", "z", ""];
        assert_eq!(call.bare().unwrap().evalsha(9).words(), bare);
        assert!(call.bare().unwrap().bare().is_none());
    }

    /// The effect, and the error that the server replies.
    const ANSWERS: &str = "
    Stopped(WrongType) WRONGTYPE Operation against a key
    Nothing NOPERM no permissions to run the 'evalsha' command
    Stopped(Permission) NOPERM no permissions to run the 'hset' command script: 1f, on @user_script:9.
    Nothing OOM command not allowed
    Nothing MISCONF
    Nothing NOREPLICAS
    Nothing READONLY
    Nothing LOADING
    Nothing MOVED 1 127.0.0.1:7000
    Nothing NOAUTH
    Nothing CLOCK
    Unknown ERR user_script:3: attempt to compare nil with number
    Unknown ERR something new
    Unknown STRANGE
";

    #[test]
    fn every_answer_has_an_effect() {
        for row in ANSWERS.trim().lines() {
            let (effect, reply) = row.trim().split_once(' ').unwrap();
            let failure = Failure::of_reply(ServerError::parse(reply));
            assert_eq!(format!("{:?}", failure.effect()), effect, "{reply}");
        }
    }
}
