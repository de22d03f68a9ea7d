//! The scripts that only the election has. No other file knows the order of their keys and
//! arguments.

use std::time::Duration;

use redlatch_core::{
    Error, Owner, Token,
    family::{Items, Key, PUBLISH, ScriptCall},
    runtime::Value,
};
use redlatch_lua::ELECTION;

/// Calls `election/announce.lua` for the term of `owner` with `token`.
pub(crate) fn announce(key: &Key, owner: &Owner, token: Token, value: &str) -> ScriptCall {
    ScriptCall::new(&ELECTION.announce, key)
        .arg(owner)
        .arg(token)
        .arg(value)
        .arg(PUBLISH)
        .arg(key.broadcast_channel())
}

/// Checks the answer: the value is known, or the term is over.
pub(crate) fn announced(reply: &Value) -> Result<(), Error> {
    let items = Items::new(&ELECTION.announce, reply)?;
    match items.text(1)? {
        "announced" | "gone" => Ok(()),
        _ => Err(items.bad()),
    }
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

/// Calls `election/look.lua`.
pub(crate) fn look(key: &Key) -> ScriptCall {
    ScriptCall::new(&ELECTION.look, key)
}

pub(crate) fn looked(reply: &Value) -> Result<Looked, Error> {
    let items = Items::new(&ELECTION.look, reply)?;
    Ok(match items.text(1)? {
        "led" => Looked::Led {
            token: Token::from_u64(items.number(2)?),
            remaining: items.span(3)?,
            value: match items.number::<u8>(4)? {
                0 => None,
                _ => Some(items.text(5)?.to_owned()),
            },
        },
        "vacant" => Looked::Vacant(items.maybe(2)?.map(Token::from_u64)),
        _ => return items.other("election:1"),
    })
}

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use super::{replies::decodes_anything, *};

    #[test]
    fn any_reply_is_decoded_or_refused() {
        decodes_anything(&["announced", "gone"], announced);
        decodes_anything(&["led", "vacant", "kind"], looked);
    }
}
