//! The plain lock's implementation of the core's `Kind`.

use redlatch_core::family::{Discipline, Kind};
use redlatch_lua::REENTRANT;

/// One waiter of each client asks for all of them, and a new caller may be faster.
pub(crate) static LOCK: Kind = Kind::new("lock", "lock:1", Discipline::Barging, &["q"], &REENTRANT);
