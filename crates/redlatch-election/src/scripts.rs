//! The scripts that only the election has. No other file knows the order of their keys and
//! arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, Owner, Token,
    family::{Items, Key, PUBLISH, Script, ScriptCall},
    runtime::Value,
};
use redlatch_lua::ELECTION;

static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(&ELECTION.announce));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&ELECTION.look));

/// `election/announce.lua`.
pub(crate) struct AnnounceScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) owner: &'a Owner,
    pub(crate) token: Token,
    pub(crate) value: &'a str,
}

impl AnnounceScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&ANNOUNCE, self.key)
            .key(self.key.as_str())
            .arg(self.owner)
            .arg(self.token)
            .arg(self.value)
            .arg(PUBLISH)
            .arg(self.key.broadcast_channel())
    }

    /// Returns whether the term lasts, so that the value is known.
    pub(crate) fn decode(reply: &Value) -> Result<bool, Error> {
        let items = Items::new(&ANNOUNCE, reply)?;
        match items.text(1)? {
            "announced" => Ok(true),
            "gone" => Ok(false),
            _ => Err(items.bad()),
        }
    }
}

/// `election/look.lua`.
pub(crate) struct LookScript<'a> {
    pub(crate) key: &'a Key,
}

/// The state that `election/look.lua` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    Led {
        token: Token,
        remaining: Duration,
        /// `None` before the leader has told it.
        value: Option<String>,
    },
    /// With the token of the last term that the server remembers.
    Vacant(Option<Token>),
}

impl LookScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&LOOK, self.key).key(self.key.as_str())
    }

    pub(crate) fn decode(reply: &Value) -> Result<Looked, Error> {
        let items = Items::new(&LOOK, reply)?;
        Ok(match items.text(1)? {
            "led" => Looked::Led {
                token: Token::from_u64(items.number(2)?),
                remaining: Duration::from_millis(items.number(3)?),
                value: match items.number::<u8>(4)? {
                    0 => None,
                    _ => Some(items.text(5)?.to_owned()),
                },
            },
            "vacant" => Looked::Vacant(items.maybe(2)?.map(Token::from_u64)),
            "kind" => return Err(Error::wrong_kind(items.text(2)?, "election:1")),
            _ => return Err(items.bad()),
        })
    }
}

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use super::{replies::decodes_anything, *};

    #[test]
    fn any_reply_is_decoded_or_refused() {
        decodes_anything(&["announced", "gone"], AnnounceScript::decode);
        decodes_anything(&["led", "vacant", "kind"], LookScript::decode);
    }
}
