//! The election.

mod cancel;
mod ending;
mod forbidden;
mod late;
mod observing;

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts while it lives.
struct Alive<'a>(&'a AtomicU32);

impl<'a> Alive<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
