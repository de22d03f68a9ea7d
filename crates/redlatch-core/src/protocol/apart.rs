//! Names whose calls merge with no others for a while.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::time::Moment;

/// Names of calls that the server has refused, in a table of fixed size. In a list one such
/// name would be the error of all. The table may forget a name, and may take another name for one
/// of these. Both cost speed only.
#[derive(Debug)]
pub(crate) struct Apart {
    /// Each entry has the last bits of a name's hash, and the end of its time in units of
    /// [`UNIT`].
    entries: Box<[AtomicU64; ENTRIES]>,
}

impl Apart {
    /// Adds `name` for [`MEMORY`].
    pub(crate) fn add(&self, name: &[u8], now: Moment) {
        let hash = hash(name);
        let end = units(now + MEMORY) & TIME;
        self.entry(hash).store((hash & !TIME) | end, Relaxed);
    }

    /// Tells whether `name` was added a moment ago.
    pub(crate) fn contains(&self, name: &[u8], now: Moment) -> bool {
        let hash = hash(name);
        let entry = self.entry(hash).load(Relaxed);
        entry & !TIME == hash & !TIME && entry & TIME > units(now) & TIME
    }

    fn entry(&self, hash: u64) -> &AtomicU64 {
        // The remainder is below the length.
        &self.entries[(hash >> 48) as usize % ENTRIES]
    }
}

impl Default for Apart {
    fn default() -> Self {
        Self {
            entries: Box::new([const { AtomicU64::new(0) }; ENTRIES]),
        }
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn units(at: Moment) -> u64 {
    (at.since_origin().as_nanos() / UNIT.as_nanos()) as u64
}

/// How long calls about a name merge with no others.
const MEMORY: Duration = Duration::from_secs(1);

const UNIT: Duration = Duration::from_millis(1);

/// The bits of an entry that contain a time: 34 years of [`UNIT`]s.
const TIME: u64 = (1 << 40) - 1;

const ENTRIES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    #[test]
    fn name_stays_for_a_moment() {
        let table = Apart::default();
        assert!(!table.contains(b"a", at(0)));
        table.add(b"a", at(5_000));
        assert!(table.contains(b"a", at(5_000)) && table.contains(b"a", at(5_999)));
        assert!(!table.contains(b"a", at(6_000)) && !table.contains(b"b", at(5_000)));
        table.add(b"a", at(6_500));
        assert!(table.contains(b"a", at(7_400)));
    }
}
