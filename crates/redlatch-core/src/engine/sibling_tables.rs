//! The tables that sibling crates keep for each client.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::Arc,
};

use crate::base::sync::{Mutex, lock};

/// One value of each type that a sibling crate has asked for.
///
/// A table must not keep its client alive.
#[derive(Debug, Default)]
pub(crate) struct SiblingTables(Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl SiblingTables {
    /// Returns the value of type `T`. All callers get the same one.
    pub(crate) fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut tables = lock(&self.0);
        let table = tables
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // Its entry has the key of its type.
        Arc::clone(table).downcast().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_table() {
        let tables = SiblingTables::default();
        *lock(&tables.get::<Mutex<u8>>()) = 7;
        *lock(&tables.get::<Mutex<u16>>()) = 8;
        assert_eq!(*lock(&tables.get::<Mutex<u8>>()), 7);
        assert_eq!(*lock(&SiblingTables::default().get::<Mutex<u8>>()), 0);
    }
}
