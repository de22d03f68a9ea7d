//! The removal of a record that nobody uses.

use std::time::Duration;

use redlatch_lua::CORE;

use crate::{
    Client, Error,
    base::{items::Items, script::ScriptCall},
    family::{Stored, stored},
    protocol::name::{Key, Name},
};

/// The outcome of a request to forget the record of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the record may still be there"]
#[non_exhaustive]
pub enum Forgotten {
    /// It is removed. The name may be of any kind now.
    Done,
    /// There is none.
    Unset,
    /// The record stays, since an owner holds the name.
    Held,
    /// The record stays, since a caller waits for the name, or did a moment ago.
    Waited,
    /// It stays: it is a latch that is not deleted, or a job with its records. Only the methods of
    /// that kind remove those.
    Set,
    /// It stays for so long at least: late copies of earlier requests may still come, or the last
    /// token is ahead of the server's clock.
    Early(Duration),
}

/// Removes the record of `name`, if nobody uses it. Costs two commands as a rule. For the crates of
/// this family.
///
/// # Errors
///
/// `WrongKind` if the record is not of this family. The errors of a request.
///
/// # Cancel safety
///
/// If the future is dropped, the record is removed or not, at most 5 s later.
pub async fn forget(client: &Client, name: &Name) -> Result<Forgotten, Error> {
    let key = client.key(name);
    let mut waited = false;
    loop {
        let Some(Stored { kind, .. }) = stored(client, name).await? else {
            return Ok(Forgotten::Unset);
        };
        let build = |_: &_| call(&key, &kind);
        match client.change(build, decode).await? {
            Ok(Forgotten::Early(rest)) if rest <= SOON && !waited => {
                waited = true;
                client.alarm(client.now() + rest).await;
            }
            Ok(forgotten) => return Ok(forgotten),
            // The kind has changed since the look, so the next look sees another one.
            Err(found) if found != kind => {}
            Err(found) => return Err(Error::unknown_kind(&found)),
        }
    }
}

/// Builds the call of `core/forget.lua`.
fn call(key: &Key, kind: &str) -> ScriptCall {
    ScriptCall::new(&CORE.forget, key)
        .dated()
        .keys(PARTS.map(|part| key.part(part)))
        .arg(kind)
}

/// Reads the outcome, or else the kind of a record that is not of the given one.
fn decode(items: &Items<'_>) -> Result<Result<Forgotten, String>, Error> {
    Ok(Ok(match items.text(1)? {
        "forgotten" => Forgotten::Done,
        "unset" => Forgotten::Unset,
        "held" => Forgotten::Held,
        "waited" => Forgotten::Waited,
        "set" => Forgotten::Set,
        "early" => Forgotten::Early(items.span(2)?),
        "kind" => return Ok(Err(items.text(2)?.to_owned())),
        _ => return Err(items.bad()),
    }))
}

/// The longest time for which late copies of requests may come. A caller waits for it.
const SOON: Duration = Duration::from_millis(5_100);

/// The parts that a kind may have, in the order of the script's keys.
const PARTS: [&str; 6] = ["q", "l", "r", "d", "o", "p"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::replies::reads_anything;

    #[test]
    fn any_reply_is_decoded_or_refused() {
        let words = "forgotten unset held waited set early kind";
        let words: Vec<_> = words.split(' ').collect();
        reads_anything(&CORE.forget, &words, decode);
    }
}
