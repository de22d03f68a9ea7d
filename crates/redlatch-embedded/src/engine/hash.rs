//! The hash type, with its fields in order of insertion.

use std::{collections::BTreeMap, sync::Arc};

/// A hash. It iterates in order of first insertion, as small hashes of real servers do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hash {
    places: BTreeMap<Arc<[u8]>, u64>,
    fields: BTreeMap<u64, (Arc<[u8]>, Vec<u8>)>,
    next: u64,
}

impl Hash {
    /// Sets a field. Returns whether the field is new.
    pub(super) fn set(&mut self, name: &[u8], value: Vec<u8>) -> bool {
        if let Some(place) = self.places.get(name) {
            if let Some((_, old)) = self.fields.get_mut(place) {
                *old = value;
            }
            return false;
        }
        let name: Arc<[u8]> = name.into();
        self.places.insert(Arc::clone(&name), self.next);
        self.fields.insert(self.next, (name, value));
        self.next += 1;
        true
    }

    /// Removes a field. Returns whether the field was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(place) = self.places.remove(name) else {
            return false;
        };
        self.fields.remove(&place);
        true
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let place = self.places.get(name)?;
        self.fields.get(place).map(|(_, value)| value.as_slice())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .values()
            .map(|(name, value)| (&**name, value.as_slice()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}
