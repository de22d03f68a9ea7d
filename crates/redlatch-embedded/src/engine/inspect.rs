//! Inspection of the data from outside, and copies of the data.

use std::{fmt, time::Duration};

use super::{
    Engine, ServerTime,
    keyspace::{Entry, Keyspace, Object},
};

/// A copy of all data of a server, for failover and restart.
#[derive(Clone, Default, PartialEq)]
pub struct Snapshot(pub(super) Keyspace);

impl Snapshot {
    /// Returns the data of an empty server.
    pub fn empty() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dumps = self.0.iter(0).map(|(key, entry)| KeyDump::of(key, entry));
        f.debug_list().entries(dumps).finish()
    }
}

/// One key, its value and its expiry.
#[derive(Clone, PartialEq)]
pub struct KeyDump {
    /// The key.
    pub key: Vec<u8>,
    /// The value under the key.
    pub contents: Contents,
    /// The last millisecond at which the key still exists; `None` for a key without expiry.
    pub expires: Option<ServerTime>,
}

impl KeyDump {
    fn of(key: &[u8], entry: &Entry) -> Self {
        Self {
            key: key.to_vec(),
            contents: Contents::of(&entry.object),
            expires: entry.expires.map(ServerTime::from_millis),
        }
    }
}

impl fmt::Debug for KeyDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(&self.key);
        write!(f, "{key} = {:?}", self.contents)?;
        match self.expires {
            Some(expires) => write!(f, " until {}", expires.millis()),
            None => Ok(()),
        }
    }
}

/// The value under a key.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Contents {
    /// A string.
    String(Vec<u8>),
    /// A hash's fields and values, in order of insertion.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// A sorted set's members and scores, in order.
    SortedSet(Vec<(Vec<u8>, f64)>),
}

impl Contents {
    fn of(object: &Object) -> Self {
        match object {
            Object::String(text) => Self::String(text.clone()),
            Object::Hash(hash) => {
                let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
                Self::Hash(hash.iter().map(own).collect())
            }
            Object::SortedSet(set) => {
                let own = |(member, score): (&[u8], f64)| (member.to_vec(), score);
                Self::SortedSet(set.iter().map(own).collect())
            }
        }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        match self {
            Self::String(value) => write!(f, "{:?}", text(value)),
            Self::Hash(fields) => {
                let fields = fields.iter().map(|(name, value)| (text(name), text(value)));
                f.debug_map().entries(fields).finish()
            }
            Self::SortedSet(members) => {
                let members = members.iter().map(|(name, score)| (text(name), score));
                f.debug_map().entries(members).finish()
            }
        }
    }
}

impl Engine {
    /// Returns the keys that exist at `now`, in order.
    pub fn keys(&self, now: ServerTime) -> Vec<Vec<u8>> {
        let core = self.core();
        let live = core.data.iter(now.millis());
        live.map(|(key, _)| key.to_vec()).collect()
    }

    /// Returns all data that exists at `now`, in order of the keys.
    pub fn dump(&self, now: ServerTime) -> Vec<KeyDump> {
        let core = self.core();
        let live = core.data.iter(now.millis());
        live.map(|(key, entry)| KeyDump::of(key, entry)).collect()
    }

    /// Returns the remaining time of `key`, in whole milliseconds as `PTTL` does. It is `None` for
    /// a missing key and `Some(None)` for a key without expiry.
    pub fn ttl(&self, key: &[u8], now: ServerTime) -> Option<Option<Duration>> {
        let mut core = self.core();
        let expires = core.data.live(key, now.millis())?.expires;
        let rest = |at: u64| Duration::from_millis(at.saturating_sub(now.millis()));
        Some(expires.map(rest))
    }

    /// Removes `key` as an administrator would. Returns whether it existed at `now`.
    pub fn delete(&mut self, key: &[u8], now: ServerTime) -> bool {
        let mut core = self.core();
        let existed = core.data.live(key, now.millis()).is_some();
        core.data.remove(key);
        existed
    }
}
