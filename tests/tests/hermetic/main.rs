//! Integration tests of the redlatch family: one binary, a module per subject.
//!
//! Modules here need nothing but this process. What needs a real server is below `servers`, which the feature of that
//! name gates; with it on, a machine without a server fails the tests. Behaviours are run on the embedded server always and
//! on real ones with that feature.

// Tests say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

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
