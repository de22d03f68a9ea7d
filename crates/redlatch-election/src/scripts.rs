//! The scripts that only the election has. No other file knows the order of their keys and
//! arguments.

use std::time::Duration;

use redlatch_core::{
    Error, Owner, Token,
    family::{Discipline, Items, Key, Kind, PUBLISH, ScriptCall},
};
use redlatch_lua::{ELECTION, FAIR_ELECTION};

/// Any candidate may lead next.
pub(crate) static PLAIN: Kind = Kind {
    label: "election",
    stored: "election:1",
    discipline: Discipline::Barging,
    parts: &["q"],
    scripts: &ELECTION.exclusive,
};

/// Candidates lead in order.
pub(crate) static FAIR: Kind = Kind {
    label: "fair_election",
    stored: "fair_election:1",
    discipline: Discipline::Queued,
    parts: &["q", "l"],
    scripts: &FAIR_ELECTION,
};

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
pub(crate) fn announced(items: &Items<'_>) -> Result<(), Error> {
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

pub(crate) fn looked(items: &Items<'_>) -> Result<Looked, Error> {
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
mod tests {
    use redlatch_core::runtime::Value;

    use super::*;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

    #[test]
    fn any_reply_is_decoded_or_refused() {
        replies::reads_anything(&ELECTION.announce, &["announced", "gone"], announced);
        replies::reads_anything(&ELECTION.look, &["led", "vacant", "kind"], looked);
    }
}
