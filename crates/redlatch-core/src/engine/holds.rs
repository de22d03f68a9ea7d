//! The table of the live holds of a client.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Weak},
};

use super::Hold;
use crate::{
    Error, ErrorKind, Owner,
    base::{
        primitive::{Primitive, Side},
        sync::{Mutex, MutexGuard, lock},
    },
    protocol::{
        hold::{HoldState, LossCause},
        name::Key,
        time::Moment,
    },
};

/// The numbers of all owners.
const ALL_OWNERS: (u64, u64) = (0, u64::MAX);

/// The most guards of one hold.
const MOST_ENTRIES: usize = 1_000;

/// The live holds of a client, for re-entry. Joining or leaving a hold takes this lock. A hold's
/// own lock is taken inside of it, never around it.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    table: Mutex<BTreeMap<Place, Weak<Hold>>>,
}

/// The locked table. It contains at most one hold of an owner for each side of an object.
pub(super) struct Table<'a>(MutexGuard<'a, BTreeMap<Place, Weak<Hold>>>);

/// The table's key. It is small, since a client may have very many holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Some bits of a hash of the key. If two objects have the same bits, the keys of their holds
    /// tell them apart.
    object: u32,
    side: Side,
    owner: u64,
    /// The number of the hold.
    id: u64,
}

impl Holds {
    pub(super) fn table(&self) -> Table<'_> {
        Table(lock(&self.table))
    }

    /// Tells whether `owner` holds `key` on any side, as far as this process knows.
    pub(crate) fn held(&self, key: &Key, owner: &Owner, now: Moment) -> bool {
        let holds = [Side::Exclusive, Side::Shared].map(|side| {
            // The table is unlocked before the hold is asked.
            self.table().get(key, owner, side)
        });
        let mut holds = holds.into_iter().flatten();
        holds.any(|hold| !matches!(hold.state(now), HoldState::Lost(_)))
    }

    /// Records that the hold of `key` with this serial was ended by force.
    pub(crate) fn revoked(&self, key: &Key, side: Side, serial: u64) {
        let is_it = |hold: &Arc<Hold>| hold.serial == serial;
        let hold = self.table().by(ALL_OWNERS, key, side).find(is_it);
        if let Some(hold) = hold {
            hold.lose(LossCause::Revoked);
        }
    }

    /// Tells whether a hold of `key` was begun by `attempt`.
    pub(crate) fn has_attempt(&self, key: &Key, attempt: u64) -> bool {
        self.of(key).iter().any(|hold| hold.attempt == attempt)
    }

    /// Returns all holds of `key`.
    pub(super) fn of(&self, key: &Key) -> Vec<Arc<Hold>> {
        let table = self.table();
        let side = |side| table.by(ALL_OWNERS, key, side);
        side(Side::Exclusive).chain(side(Side::Shared)).collect()
    }

    /// Returns the number of holds.
    pub(crate) fn len(&self) -> usize {
        self.table().0.len()
    }

    /// Checks that `owner` may enter its hold once more. The server reads the entries of a hold
    /// with each further one.
    pub(super) fn check_entry(
        &self,
        primitive: &dyn Primitive,
        owner: &Owner,
    ) -> Result<(), Error> {
        let (key, side) = (primitive.key(), primitive.side());
        let hold = self.table().get(key, owner, side);
        match hold.map_or(0, |hold| hold.guards()) {
            0..MOST_ENTRIES => Ok(()),
            guards => {
                let message = format!(
                    "its owner has {guards} guards of it, and no more than {MOST_ENTRIES} are possible; release some first"
                );
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
        }
    }

    /// Returns all holds.
    pub(crate) fn all(&self) -> Vec<Weak<Hold>> {
        self.table().0.values().cloned().collect()
    }
}

impl Table<'_> {
    /// Returns the hold of `owner` for a side of `key`.
    pub(super) fn get(&self, key: &Key, owner: &Owner, side: Side) -> Option<Arc<Hold>> {
        let number = owner.number();
        self.by((number, number), key, side).next()
    }

    /// Returns the holds of a side of `key` by the owners from one number to another.
    fn by(
        &self,
        (first, last): (u64, u64),
        key: &Key,
        side: Side,
    ) -> impl Iterator<Item = Arc<Hold>> {
        let first = Place {
            object: object(key),
            side,
            owner: first,
            id: 0,
        };
        let last = Place {
            owner: last,
            id: u64::MAX,
            ..first
        };
        let holds = self.0.range(first..=last);
        let holds = holds.filter_map(|(_, hold)| hold.upgrade());
        holds.filter(move |hold| hold.primitive.key() == key)
    }

    /// Inserts a hold. Its place must be free.
    pub(super) fn insert(&mut self, hold: &Arc<Hold>) {
        self.0.insert(Place::of(hold), Arc::downgrade(hold));
    }

    /// Removes a hold. Returns whether it was in the table.
    pub(super) fn remove(&mut self, hold: &Hold) -> bool {
        self.0.remove(&Place::of(hold)).is_some()
    }
}

impl Place {
    fn of(hold: &Hold) -> Self {
        let primitive = &hold.primitive;
        Self {
            object: object(primitive.key()),
            side: primitive.side(),
            owner: hold.owner.number(),
            id: hold.id,
        }
    }
}

/// Returns some bits of a hash of the key. The hash is the same in every run, which the simulator
/// needs.
fn object(key: &Key) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.as_str().hash(&mut hasher);
    hasher.finish() as u32
}
