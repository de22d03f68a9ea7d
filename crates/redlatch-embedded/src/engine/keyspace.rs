//! The keys and their values.

use std::collections::BTreeMap;

use super::{hash::Hash, zset::SortedSet};

/// All data of a server, as a plain value in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// The key from which the next [`sweep`](Self::sweep) searches.
    hand: Vec<u8>,
}

impl Keyspace {
    /// Returns the entry under `key`, after removing it if it has expired.
    pub(super) fn live(&mut self, key: &[u8], now: u64) -> Option<&mut Entry> {
        let found = self.entries.get(key);
        if found.is_some_and(|entry| entry.has_expired(now)) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    /// Returns the entry under `key`, and inserts the result of `make` if there is none. The caller
    /// must have called [`live`](Self::live) before.
    pub(super) fn or_insert(&mut self, key: &[u8], make: impl FnOnce() -> Object) -> &mut Entry {
        // The lookup avoids a copy of the key in the common case.
        if !self.entries.contains_key(key) {
            self.entries.insert(key.to_vec(), Entry::new(make()));
        }
        #[expect(clippy::expect_used, reason = "present or inserted above")]
        self.entries.get_mut(key).expect("the entry is there")
    }

    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) {
        self.entries.insert(key.to_vec(), entry);
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        self.entries.remove(key)
    }

    /// Iterates over the keys that have not expired, in order.
    pub(super) fn iter(&self, now: u64) -> impl Iterator<Item = (&[u8], &Entry)> {
        let all = self.entries.iter().map(|(key, entry)| (&key[..], entry));
        all.filter(move |(_, entry)| !entry.has_expired(now))
    }

    /// Inspects the next key in order and removes it if it has expired.
    ///
    /// The engine calls it once per command, so that expired keys without further requests go too.
    pub(super) fn sweep(&mut self, now: u64) {
        let next = self.entries.range(std::mem::take(&mut self.hand)..).next();
        let Some((key, entry)) = next else { return };
        let expired = entry.has_expired(now);
        self.hand.clone_from(key);
        if expired {
            self.entries.remove(&self.hand);
        } else {
            self.hand.push(0);
        }
    }

    /// Estimates the bytes in use.
    pub(super) fn size(&self) -> usize {
        let sizes = self.entries.iter();
        let sizes = sizes.map(|(key, entry)| key.len() + entry.object.size() + OVERHEAD);
        sizes.sum()
    }
}

/// A value and its expiry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) object: Object,
    /// The last millisecond at which the key still exists.
    pub(super) expires: Option<u64>,
}

impl Entry {
    pub(super) const fn new(object: Object) -> Self {
        let expires = None;
        Self { object, expires }
    }

    fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now > expires)
    }
}

/// A value of one of the types that the engine supports.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    String(Vec<u8>),
    Hash(Hash),
    SortedSet(SortedSet),
}

impl Object {
    /// Returns the name of the type, as `TYPE` reports it.
    pub(super) const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::SortedSet(_) => "zset",
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Hash(hash) => hash
                .iter()
                .map(|(name, value)| name.len() + value.len() + OVERHEAD)
                .sum(),
            Self::SortedSet(set) => set.iter().map(|(member, _)| member.len() + OVERHEAD).sum(),
        }
    }
}

/// The approximate overhead of an item besides its bytes.
const OVERHEAD: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_visits_every_key() {
        let mut keys = Keyspace::default();
        for (key, expires) in [("a", None), ("b", Some(1)), ("c", Some(1)), ("d", None)] {
            let object = Object::String(Vec::new());
            keys.insert(key.as_bytes(), Entry { object, expires });
        }
        (0..8).for_each(|_| keys.sweep(5));
        assert_eq!(keys.entries.len(), 2);
    }
}
