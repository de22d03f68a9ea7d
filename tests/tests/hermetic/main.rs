//! Tests that need nothing but this process: a module per subject, and all behaviours on the embedded server.

// Tests say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod behaviours;
mod fair;
mod latch;
mod listen;
mod lock;
mod multi;
mod permits;
mod polling;
mod rwlock;
mod scripts;
mod semaphore;
