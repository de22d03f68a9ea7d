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
        "local held = owner and until_ms > now",
        "local held = owner and until_ms > now and i == 1",
    ),
    script(
        "multi-writes-only-the-first",
        ACQUIRE,
        "line = line .. take(first + (i - 1) * PARTS, found[i], e)",
        "line = line .. take(first, found[1], e)",
    ),
    script(
        "multi-second-without-end",
        ACQUIRE,
        "call('PEXPIRE', key, life)",
        "call('PEXPIRE', KEYS[1], life)",
    ),
    script("multi-marks-not-read", ACQUIRE, "return now .. ' void'", ""),
    script(
        "multi-first-attempt-only",
        ACQUIRE,
        "held = held .. attempt .. ' '",
        "held = at == 1 and held .. attempt .. ' ' or held",
    ),
    client("multi-any-order", Rule::TakeInOrder),
    client("multi-loss-unseen", Rule::WatchTaken),
    client("multi-abandoned-not-undone", Rule::UndoAbandoned),
    client("multi-copies-not-marked", Rule::MarkCopies),
    client("multi-lease-from-reply", Rule::CountFromSend),
    client("multi-drop-releases-nothing", Rule::ReleaseOnDrop),
];
