//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex that guards plain values, which a panic elsewhere cannot leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
