//! The objects that can be handed to a local waiter, because no other client waits for them.

use std::collections::BTreeSet;

use crate::{
    base::sync::{Mutex, MutexGuard, lock},
    protocol::name::Key,
};

/// The objects, by key and kind, for which no other client waited at this client's last release.
#[derive(Debug, Default)]
pub(crate) struct Uncontended(Mutex<BTreeSet<(Key, &'static str)>>);

impl Uncontended {
    /// Removes the object. Returns whether it was present.
    pub(super) fn take(&self, key: &Key, kind: &'static str) -> bool {
        let mut objects = self.objects();
        !objects.is_empty() && objects.remove(&(key.clone(), kind))
    }

    /// Adds the object.
    pub(super) fn put(&self, key: &Key, kind: &'static str) {
        let mut objects = self.objects();
        if objects.len() >= MOST {
            // The next release of each removed object is an ordinary one.
            objects.clear();
        }
        objects.insert((key.clone(), kind));
    }

    fn objects(&self) -> MutexGuard<'_, BTreeSet<(Key, &'static str)>> {
        lock(&self.0)
    }
}

/// The maximum number of objects. An object whose last hold was lost is never taken, so the table
/// needs a limit.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::name::key;

    #[test]
    fn a_name_is_taken_once_and_their_number_is_bounded() {
        let key = |n: usize| key(&format!("name-{n}"));
        let uncontended = Uncontended::default();
        uncontended.put(&key(0), "lock");
        assert!(!uncontended.take(&key(0), "semaphore"));
        assert!(uncontended.take(&key(0), "lock"));
        assert!(!uncontended.take(&key(0), "lock"));
        for n in 0..=MOST {
            uncontended.put(&key(n), "lock");
        }
        assert!(uncontended.objects().len() <= MOST);
        assert!(uncontended.take(&key(MOST), "lock"));
    }
}
