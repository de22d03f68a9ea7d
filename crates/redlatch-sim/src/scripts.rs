//! What the observer understands of the scripts that the server runs.

use std::{fmt, sync::LazyLock};

use redlatch_core::seam::{Command, Reply, Value};
use redlatch_lua::REENTRANT;

use crate::mutants::sha;

/// A script that the server has run.
#[derive(Clone, Debug)]
pub enum Seen {
    /// An attempt has the name.
    Granted {
        /// The name.
        name: usize,
        /// The attempt.
        attempt: String,
        /// The whole answer.
        text: String,
    },
    /// A hold was renewed.
    Renewed {
        /// The name.
        name: usize,
        /// The hold.
        token: u64,
    },
    /// What an attempt had is ended.
    Ended {
        /// The name.
        name: usize,
        /// The attempt; empty if it was only a waiter.
        attempt: String,
        /// The name is free by this.
        freed: bool,
    },
    /// Anything else.
    Other(String),
}

impl Seen {
    /// Reads a command and its reply; `None` if it is no script of the lock.
    pub fn of(command: &Command, reply: &Reply) -> Option<Self> {
        let args: Vec<_> = command.args().collect();
        let which = Which::of(args.first()?, args.get(1)?)?;
        let arg = |at: usize| {
            args.get(at)
                .map(|arg| String::from_utf8_lossy(arg).into_owned())
                .unwrap_or_default()
        };
        let name = name_of(&arg(3))?;
        let Ok(Value::Array(items)) = reply else {
            return Some(Self::Other(format!(
                "the server is asked to run {which:?} on {}: {reply:?}",
                label(name)
            )));
        };
        let verdict = items.get(1).and_then(Value::as_str).unwrap_or_default();
        Some(match (which, verdict) {
            (Which::Acquire, "granted") => Self::Granted {
                name,
                attempt: arg(7),
                text: words(items),
            },
            (Which::Renew, "renewed") => Self::Renewed {
                name,
                token: arg(8).parse().unwrap_or(0),
            },
            (Which::Release, _) => Self::Ended {
                name,
                attempt: arg(6),
                freed: verdict == "released" && items.get(2).and_then(Value::as_int) == Some(0),
            },
            _ => Self::Other(format!(
                "the server runs {which:?} of {} on {}: {}",
                arg(6),
                label(name),
                words(items)
            )),
        })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted {
                name,
                attempt,
                text,
            } => write!(
                f,
                "the server runs acquire for attempt {attempt} on {}: {text}",
                label(*name)
            ),
            Self::Renewed { name, token } => {
                write!(f, "the server renews {} for token {token}", label(*name))
            }
            Self::Ended {
                name,
                attempt,
                freed,
            } => write!(
                f,
                "the server ends attempt {attempt} on {}{}",
                label(*name),
                if *freed { ": it is free" } else { "" }
            ),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Acquire,
    Renew,
    Release,
}

impl Which {
    fn of(verb: &[u8], script: &[u8]) -> Option<Self> {
        static DIGESTS: LazyLock<[String; 3]> = LazyLock::new(|| {
            [&REENTRANT.acquire, &REENTRANT.renew, &REENTRANT.release]
                .map(|source| sha(source.text))
        });
        let texts = [
            REENTRANT.acquire.text,
            REENTRANT.renew.text,
            REENTRANT.release.text,
        ];
        let at = match verb {
            b"EVALSHA" => DIGESTS
                .iter()
                .position(|digest| digest.as_bytes() == script),
            b"EVAL" => texts.iter().position(|text| text.as_bytes() == script),
            _ => None,
        }?;
        [Self::Acquire, Self::Renew, Self::Release].get(at).copied()
    }
}

/// Returns the number of a name from its text or from a key made of it.
pub fn name_of(text: &str) -> Option<usize> {
    NAMES.iter().position(|name| text.contains(name))
}

/// Returns a name's text.
pub fn label(name: usize) -> &'static str {
    NAMES.get(name).copied().unwrap_or("?")
}

fn words(items: &[Value]) -> String {
    let words: Vec<_> = items
        .iter()
        .skip(1)
        .map(|item| match item {
            Value::Int(number) => number.to_string(),
            other => other.as_str().unwrap_or("?").to_owned(),
        })
        .collect();
    words.join(" ")
}

/// The names that are locked in a run.
pub const NAMES: [&str; 3] = ["apple", "berry", "cedar"];
