//! Locks under shuttle.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::Ordering,
};

use shuttle::sync::{Mutex, PoisonError};

use super::AtomicBool;

/// A lock's guard that lets other threads run behind the unlocking, too. Shuttle lets them run
/// before, and tokio's notifications never do.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    MutexGuard(Some(mutex.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0 = None;
        AtomicBool::new(false).load(Ordering::SeqCst);
    }
}
