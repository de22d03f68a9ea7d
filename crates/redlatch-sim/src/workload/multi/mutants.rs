//! The planted faults that runs of locks held as one must find.

use redlatch_core::family::Rule;
use redlatch_lua::{REENTRANT, Source};

use crate::mutants::{Mutant, client, script};

const ACQUIRE: &Source = &REENTRANT.acquire;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "multi-takes-what-is-held",
        ACQUIRE,
        "local held = f[2] and f[4] > now",
        "local held = f[2] and f[4] > now and i == 1",
    ),
    script(
        "multi-writes-only-the-first",
        ACQUIRE,
        "local key, f = KEYS[i], names[i]",
        "local key, f = KEYS[1], names[1]",
    ),
    script(
        "multi-second-without-end",
        ACQUIRE,
        "call('PEXPIRE', key, life)",
        "call('PEXPIRE', KEYS[1], life)",
    ),
    script("multi-marks-not-read", ACQUIRE, "return {now, 'void'}", ""),
    script(
        "multi-first-attempt-only",
        ACQUIRE,
        "held = held .. attempt .. ' '",
        "held = i == 1 and held .. attempt .. ' ' or held",
    ),
    client("multi-any-order", Rule::TakeInOrder),
    client("multi-loss-unseen", Rule::WatchTaken),
    client("multi-abandoned-not-undone", Rule::UndoAbandoned),
    client("multi-copies-not-marked", Rule::MarkCopies),
    client("multi-lease-from-reply", Rule::CountFromSend),
    client("multi-drop-releases-nothing", Rule::ReleaseOnDrop),
];
