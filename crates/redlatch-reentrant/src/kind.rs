//! What the plain lock is to the core.

use std::sync::LazyLock;

use redlatch_core::family::{Discipline, Kind};
use redlatch_lua::REENTRANT;

/// One waiter of each client stands for all of its own, and a newcomer may be faster.
pub(crate) static LOCK: LazyLock<Kind> =
    LazyLock::new(|| Kind::new("lock", "lock:1", Discipline::Barging, &["q"], &REENTRANT));
