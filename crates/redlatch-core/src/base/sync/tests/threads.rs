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
pub(crate) struct MutexGuard<'a, T>(shuttle::sync::MutexGuard<'a, T>, Behind);

#[derive(Debug)]
struct Behind;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let locked = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    MutexGuard(locked, Behind)
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        AtomicBool::new(false).load(Ordering::SeqCst);
    }
}
