//! A map that usually has one entry.

use std::{collections::BTreeMap, ops::RangeInclusive};

/// An ordered map that stores its first entry without a heap allocation, provided that the entry
/// came first. Nearly all names have one waiter in a process.
#[derive(Debug)]
pub(crate) struct SmallMap<K, V> {
    /// The entry with the smallest key.
    first: Option<(K, V)>,
    rest: BTreeMap<K, V>,
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Inserts `value`, and replaces an existing value of the key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match &mut self.first {
            None if self.rest.is_empty() => self.first = Some((key, value)),
            Some(first) if key == first.0 => first.1 = value,
            Some(first) if key < first.0 => {
                let (later, moved) = std::mem::replace(first, (key, value));
                self.rest.insert(later, moved);
            }
            _ => {
                self.rest.insert(key, value);
            }
        }
    }

    /// Returns the value of the key, inserted as default if absent.
    pub(crate) fn get_or_default(&mut self, key: &K) -> &mut V
    where
        K: Clone,
        V: Default,
    {
        if self.is_empty() || self.first.as_ref().is_some_and(|first| *key < first.0) {
            self.insert(key.clone(), V::default());
        }
        match &mut self.first {
            Some(first) if first.0 == *key => &mut first.1,
            _ => self.rest.entry(key.clone()).or_default(),
        }
    }

    /// Removes the value of the key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match self.first.take_if(|first| first.0 == *key) {
            Some((_, value)) => Some(value),
            None => self.rest.remove(key),
        }
    }

    /// Returns the value of the key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match &self.first {
            Some(first) if first.0 == *key => Some(&first.1),
            _ => self.rest.get(key),
        }
    }

    /// Returns the value of the key.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.first {
            Some(first) if first.0 == *key => Some(&mut first.1),
            _ => self.rest.get_mut(key),
        }
    }

    /// Returns the first entry.
    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// Returns all entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let first = self.first.as_ref().map(|(key, value)| (key, value));
        first.into_iter().chain(&self.rest)
    }

    /// Returns the keys in `range`, in order.
    pub(crate) fn range(&self, range: RangeInclusive<K>) -> impl Iterator<Item = &K> {
        let first = self.first.as_ref().map(|(key, _)| key);
        let first = first.filter(|&key| range.contains(key));
        let rest = self.rest.range(range).map(|(key, _)| key);
        first.into_iter().chain(rest)
    }

    /// Returns all values in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Returns whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self {
            first: None,
            rest: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_an_ordered_map(steps in prop::collection::vec((0u8..8, any::<bool>()), 0..64)) {
            let (mut map, mut model) = (SmallMap::default(), BTreeMap::new());
            for (n, (key, put)) in steps.into_iter().enumerate() {
                if put {
                    map.insert(key, n);
                    model.insert(key, n);
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                if n % 3 == 0 {
                    *map.get_or_default(&(key / 2)) += 1;
                    *model.entry(key / 2).or_default() += 1;
                }
                prop_assert!(map.iter().eq(&model));
                prop_assert!(map.values().eq(model.values()));
                let range = key / 2..=key;
                let in_model = model.range(range.clone()).map(|(key, _)| key);
                prop_assert!(map.range(range).eq(in_model));
                prop_assert_eq!(map.first(), model.first_key_value());
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                for key in 0..8 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    prop_assert_eq!(map.get_mut(&key), model.get_mut(&key));
                }
            }
        }
    }
}
