//! The scripts that the server runs, as the observer sees them.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::LazyLock};

use redlatch_core::{
    family::listed,
    runtime::{Command, Reply, Value},
};
use redlatch_lua::Source;
use sha1_smol::Sha1;

use crate::names::{label, name_of};

/// A script of the family that the server ran, and its reply.
#[derive(Debug)]
pub struct Ran<'a> {
    /// The original script, also if a planted fault ran instead of it.
    pub source: &'static Source,
    args: Vec<Cow<'a, str>>,
    keys: usize,
    reply: Cow<'a, Reply>,
    items: Vec<Value>,
}

impl<'a> Ran<'a> {
    /// Reads a command and its reply: a call with one entry for each entry. Empty if the command
    /// runs no script of redlatch.
    pub fn all(command: &'a Command, reply: &'a Reply) -> Vec<Self> {
        let ran = Self::of(command, reply);
        ran.map_or_else(Vec::new, Self::entries)
    }

    fn of(command: &'a Command, reply: &'a Reply) -> Option<Self> {
        let source = called(command)?;
        let args = command.args().skip(3);
        Some(Self {
            source,
            args: args.map(|arg| Cow::Borrowed(text(arg))).collect(),
            keys: keys_of(command)?.len(),
            reply: Cow::Borrowed(reply),
            items: items(reply),
        })
    }

    /// Splits a call with several entries into calls with one. Ids are whole.
    fn entries(self) -> Vec<Self> {
        let Some(list) = self.source.list else {
            return vec![self];
        };
        let (keys, args) = self.args.split_at(self.keys);
        let (shared, own) = args.split_at(list.shared.min(args.len()));
        let entries = own.len() / list.own;
        let text = self.reply.as_ref().as_ref().ok().and_then(Value::as_str);
        let lines: Vec<_> = text.unwrap_or_default().split('\n').collect();
        if entries == 0 || lines.len() != entries {
            return vec![self];
        }
        let width = self.keys / entries;
        let client = shared.iter().find(|arg| arg.len() == CLIENT);
        let whole = |arg: &Cow<'a, str>| match client {
            Some(client) if is_ids(arg) => Cow::Owned(whole_ids(client, arg)),
            _ => arg.clone(),
        };
        let served = lines.iter().enumerate().map(|(place, line)| {
            let keys = &keys[place * width..][..width];
            let own = own[place * list.own..][..list.own].iter().map(whole);
            let reply = Ok(Value::Bulk(line.as_bytes().to_vec()));
            Ran {
                source: self.source,
                args: keys.iter().chain(shared).cloned().chain(own).collect(),
                keys: width,
                items: items(&reply),
                reply: Cow::Owned(reply),
            }
        });
        served.collect()
    }

    /// Returns `KEYS[at]`, counted from 1 as in the script's header.
    pub fn key(&self, at: usize) -> &str {
        let key = self.args[..self.keys].get(at - 1);
        key.map_or("", |key| key.as_ref())
    }

    /// Returns `ARGV[at]`, counted from 1 as in the script's header.
    pub fn arg(&self, at: usize) -> &str {
        let arg = self.args.get(self.keys + at - 1);
        arg.map_or("", |arg| arg.as_ref())
    }

    /// Returns the attempts that a script has withdrawn for their client. Their numbers begin at
    /// argument `from`.
    pub fn withdrawn(&self, from: usize) -> Vec<String> {
        let client = self.arg(2).rsplit(':').next().unwrap_or_default();
        let numbers = (from..).map(|at| self.arg(at));
        let struck = |it: &&str| self.verdict() == "struck" && !it.is_empty();
        let attempts = numbers.take_while(struck);
        attempts.map(|it| format!("{client}:{it}")).collect()
    }

    /// Returns the grants that a script has made on behalf of waiters: three items of the reply for
    /// each, `granted`, the attempt and `g<nonce>.<token>.<ends>.…`.
    pub fn given(&self) -> impl Iterator<Item = Given<'_>> {
        let asks = ["/acquire", "/read", "/write"];
        let tells = !asks.iter().any(|asks| self.source.name.ends_with(asks));
        let items = if tells { self.items.len() } else { 0 };
        let first = (3..=items).find(|&at| self.text(at) == Some("granted"));
        let all = first.into_iter().flat_map(|first| (first..).step_by(3));
        all.map_while(move |at| {
            let mut numbers = numbers(self.text(at + 2)?);
            Some(Given {
                attempt: self.text(at + 1)?,
                token: numbers.next()?,
                ends: numbers.next()?,
            })
        })
    }

    /// Returns the number of keys.
    pub const fn keys(&self) -> usize {
        self.keys
    }

    /// Tells whether the call went without its optional keys, since its slot was on the move.
    pub fn is_bare(&self) -> bool {
        self.source.list.is_some_and(|list| self.keys < list.keys)
    }

    /// Returns the name to which the first key belongs.
    pub fn name(&self) -> Option<usize> {
        name_of(self.key(1))
    }

    /// Returns item `at` of the reply, counted from 1 as in the script's header.
    pub fn item(&self, at: usize) -> Option<&Value> {
        self.items.get(at - 1)
    }

    /// Returns an item of the reply as a number.
    pub fn number(&self, at: usize) -> Option<u64> {
        let number = self.item(at).and_then(Value::as_int)?;
        u64::try_from(number).ok()
    }

    /// Returns an item of the reply as text.
    pub fn text(&self, at: usize) -> Option<&str> {
        self.item(at).and_then(Value::as_str)
    }

    /// Returns the second item of the reply, which is one word for the result; empty for an error.
    pub fn verdict(&self) -> &str {
        self.text(2).unwrap_or_default()
    }
}

/// Returns the numbers of a grant `g<nonce>.<token>.<ends>.…`, without the nonce.
pub(crate) fn numbers(grant: &str) -> impl Iterator<Item = u64> {
    grant.split('.').skip(1).map_while(|it| it.parse().ok())
}

/// A grant that a script has made on behalf of a waiter.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The waiter's attempt.
    pub attempt: &'a str,
    /// The token of the hold.
    pub token: u64,
    /// The end of the hold, in ms of the server.
    pub ends: u64,
}

impl fmt::Display for Ran<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server runs {}", self.source.name)?;
        if let Some(name) = self.name() {
            write!(f, " on {}", label(name))?;
        }
        for arg in &self.args[self.keys..] {
            // Attempts, owners and tokens are of interest. The other arguments are times and
            // addresses.
            let telling = arg.len() >= 16 || arg.contains(':');
            if telling && !arg.contains(' ') {
                write!(f, " {arg}")?;
            }
        }
        match self.reply.as_ref() {
            Ok(_) if !self.items.is_empty() => {
                f.write_str(":")?;
                self.items.iter().skip(1).try_for_each(|item| match item {
                    Value::Int(number) => write!(f, " {number}"),
                    other => write!(f, " {}", other.as_str().unwrap_or("?")),
                })
            }
            other => write!(f, ": {other:?}"),
        }
    }
}

/// Tells whether an argument is a list of ids, or one. Other arguments that have a colon begin with
/// another word.
fn is_ids(arg: &str) -> bool {
    let first = arg.split(' ').next();
    first.is_some_and(|first| first.contains(':'))
}

/// Puts the client in front of the ids that have none.
fn whole_ids(client: &str, ids: &str) -> String {
    let ids = ids.split(' ').map(|id| match id.starts_with(':') {
        true => format!("{client}{id}"),
        false => id.to_owned(),
    });
    ids.collect::<Vec<_>>().join(" ")
}

/// The length of a client's id.
const CLIENT: usize = 32;

/// An action of the server, in terms that all kinds share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The name.
    pub name: usize,
    /// The action.
    pub act: Act,
    /// The attempt. Of a renewed or forced hold, the identity of the hold within the name.
    pub id: String,
}

/// What the server has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An attempt was granted the name, or a part of it.
    Granted,
    /// Another owner's release, or the like, has granted the name to a waiter. The request may be
    /// old: the waiter's registration is a standing order.
    Given,
    /// A hold was renewed.
    Renewed,
    /// The hold of an attempt has ended, and the attempt must not acquire again. The attempt is
    /// empty if only a waiter was removed.
    Ended {
        /// Whether a waiter can now acquire the name.
        freed: bool,
    },
    /// A hold was ended by force, or its renewal was forbidden.
    Forced {
        /// Whether the hold has ended. Otherwise only its renewal is forbidden.
        ended: bool,
        /// Whether a waiter can now acquire the name.
        freed: bool,
    },
}

impl Seen {
    pub(crate) fn new(name: usize, act: Act, id: impl Into<String>) -> Self {
        let id = id.into();
        Self { name, act, id }
    }
}

/// Returns the script of the family that a command calls.
pub(crate) fn called(command: &Command) -> Option<&'static Source> {
    let mut args = command.args();
    let calls = matches!(args.next()?, b"EVALSHA" | b"EVAL");
    let script = args.next().filter(|_| calls)?;
    SCRIPTS.get(script).copied()
}

/// Returns the keys of a command that runs a script. Other commands have none.
pub(crate) fn keys_of(command: &Command) -> Option<Vec<&[u8]>> {
    let mut args = command.args();
    args.next().filter(|verb| verb.starts_with(b"EVAL"))?;
    let number = std::str::from_utf8(args.nth(1)?).ok()?.parse().ok()?;
    Some(args.take(number).collect())
}

/// Returns a script's digest.
pub(crate) fn sha(text: &str) -> String {
    Sha1::from(text).digest().to_string()
}

fn items(reply: &Reply) -> Vec<Value> {
    match reply.clone().map(listed) {
        Ok(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// All scripts by their digests and by their texts.
static SCRIPTS: LazyLock<BTreeMap<&'static [u8], &'static Source>> = LazyLock::new(|| {
    let all = redlatch_lua::all();
    all.flat_map(|source| [source.digest, source.text].map(|key| (key.as_bytes(), source)))
        .collect()
});
