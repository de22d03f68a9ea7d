//! The records under a client's prefix: the search for their names, their kind, and their removal.

use std::{collections::VecDeque, time::Duration};

use redlatch_lua::CORE;

use crate::{
    Client, Error, ErrorKind, Token,
    base::{items::Items, script::ScriptCall},
    protocol::{
        glob,
        name::{Key, Name},
        rights,
        time::Moment,
    },
    runtime::{Command, Value},
};

/// Finds the names under a client's prefix that match a pattern, in bounded steps. For the crates
/// of this family.
#[derive(Debug)]
pub struct Scan {
    client: Client,
    pattern: String,
    /// One slot of each node that has not been scanned completely; `None` before the first step.
    nodes: Option<VecDeque<u16>>,
    /// Whether there are several nodes.
    several: bool,
    cursor: String,
    /// What is missing, of a cluster of which a part answers.
    missing: Option<Error>,
}

impl Scan {
    /// Creates a scan from the beginning.
    pub fn new(client: &Client, pattern: &str) -> Self {
        Self {
            client: client.clone(),
            pattern: pattern.to_owned(),
            nodes: None,
            several: false,
            cursor: "0".to_owned(),
            missing: None,
        }
    }

    /// Returns the names of the next step, possibly none; `None` at the end. A name may be returned
    /// twice, as with `SCAN`. The last step fails if a part of a cluster did not answer, or if some
    /// slots have no node. The steps before it have returned the names of the rest.
    ///
    /// # Errors
    ///
    /// The errors of a request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the next call repeats the step.
    pub async fn step(&mut self) -> Result<Option<Vec<Name>>, Error> {
        let client = self.client.clone();
        client.check_open()?;
        let router = &client.net().router;
        let deadline = client.now() + client.0.patience;
        if self.nodes.is_none() {
            self.begin(deadline).await?;
        }
        let nodes = self.nodes.get_or_insert_default();
        let Some(&slot) = nodes.front() else {
            return self.missing.take().map_or(Ok(None), Err);
        };
        // One node that is silent must not take the time of the others.
        let deadline = match self.several {
            true => deadline.min(client.now() + router.connect_timeout),
            false => deadline,
        };
        let prefix = &client.0.prefix;
        let command = Command::new("SCAN")
            .arg(&self.cursor)
            .arg("MATCH")
            .arg(format!("{}:[{{@]*", prefix.as_str()))
            .arg("COUNT")
            .arg(STEP);
        let reply = match client.net().ask(slot, command, deadline).await {
            Err(error) if self.several && error.is_silence() => {
                nodes.pop_front();
                "0".clone_into(&mut self.cursor);
                let message = format!("names are missing, since a server does not answer: {error}");
                self.missing = Some(Error::with_reason(error.kind(), message, error));
                return Ok(Some(Vec::new()));
            }
            reply => reply?,
        };
        let parts = match reply.as_array() {
            Some([cursor, keys]) => cursor.as_str().zip(keys.as_array()),
            _ => None,
        };
        let (cursor, keys) = parts.ok_or_else(|| Error::bad_reply("SCAN", &reply))?;
        let decoded = |key: &Value| Key::decode(prefix, key.as_str()?);
        let matches = |name: &Name| glob::matches(&self.pattern, name.as_str());
        let names = keys.iter().filter_map(decoded).filter(matches).collect();
        if cursor == "0" {
            nodes.pop_front();
        }
        self.cursor = cursor.to_owned();
        Ok(Some(names))
    }

    /// Lists the nodes. A client that has just been made knows none yet.
    async fn begin(&mut self, deadline: Moment) -> Result<(), Error> {
        let router = &self.client.net().router;
        router.known(deadline).await?;
        if let Some(slots) = router.unserved() {
            let message = format!(
                "names are missing, since no server of the cluster is in charge of the slots {slots}"
            );
            self.missing = Some(Error::unavailable(message));
        }
        let slots = router.one_slot_per_node();
        self.several = slots.len() > 1;
        self.nodes = Some(slots.into());
        Ok(())
    }
}

/// An object as the server stores it. For the crates of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The kind, such as `lock:1`.
    pub kind: String,
    /// The token of the last hold that was ended by force, or whose renewal was forbidden.
    pub forced: Option<Token>,
}

/// Returns the kind of the object called `name` as the server stores it. Returns `None` if there is
/// no object. Costs one command, two without an object, and three if it comes between them. For the
/// crates of this family.
///
/// # Errors
///
/// `WrongKind` if the key holds a value of another program. The errors of a request.
///
/// # Cancel safety
///
/// The function only reads.
pub async fn stored(client: &Client, name: &Name) -> Result<Option<Stored>, Error> {
    client.check_open()?;
    let key = client.key(name);
    let deadline = client.now() + client.0.patience;
    let look = async || {
        let command = Command::new("HMGET").arg(key.as_str()).arg("k").arg("f");
        let reply = client.net().ask(key.slot(), command, deadline).await?;
        let Some([kind, forced]) = reply.as_array() else {
            return Err(Error::bad_reply("HMGET", &reply));
        };
        let forced = forced.as_str().and_then(|token| token.parse().ok());
        Ok(kind.as_str().map(|kind| Stored {
            kind: kind.to_owned(),
            forced: forced.map(Token::from_u64),
        }))
    };
    if let Some(stored) = look().await? {
        return Ok(Some(stored));
    }
    let command = Command::new("PTTL").arg(key.as_str());
    let reply = client.net().ask(key.slot(), command, deadline).await?;
    match reply.as_int() {
        Some(ABSENT) => Ok(None),
        // The object may have come between the two commands.
        Some(_) => match look().await? {
            Some(stored) => Ok(Some(stored)),
            None => Err(Error::wrong_kind("", "")),
        },
        None => Err(Error::bad_reply("PTTL", &reply)),
    }
}

/// Tells whether an error is about one object only, so that a walk over many goes on.
pub fn is_of_one_object(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::WrongKind | ErrorKind::Protocol => true,
        // A command that is denied is denied for all objects.
        ErrorKind::Permission => error
            .reason()
            .is_some_and(|denial| rights::is_about_key(&denial.to_string())),
        _ => false,
    }
}

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

/// The answer of `PTTL` for a key that does not exist.
const ABSENT: i64 = -2;

/// The number of keys that the server examines in one step.
const STEP: &str = "256";

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
