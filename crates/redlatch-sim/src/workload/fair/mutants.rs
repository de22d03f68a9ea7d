//! The planted faults that runs of the fair lock must find.

use redlatch_core::family::Rule;
use redlatch_lua::{FAIR, Source};

use crate::mutants::{Mutant, What, client, mutant, script};

const ACQUIRE: &Source = &FAIR.exclusive.acquire;
const RELEASE: &Source = &FAIR.exclusive.release;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "fair-overtakes",
        ACQUIRE,
        "if not held and has.waiters <= now then",
        "if not held then",
    ),
    script(
        "fair-last-come-first-served",
        ACQUIRE,
        "redis.call('ZADD', q, 'NX', micros, member) == 0",
        "redis.call('ZADD', q, 'NX', -micros, member) == 0",
    ),
    script(
        "fair-head-not-called",
        RELEASE,
        "elseif not queue_is_called(called, head) then",
        "elseif false then",
    ),
    script(
        "fair-dead-not-skipped",
        ACQUIRE,
        "if alive and alive > now then",
        "if alive then",
    ),
    script(
        "fair-living-skipped",
        ACQUIRE,
        "redis.call('ZADD', l, alive, client)",
        "redis.call('ZADD', l, 'NX', alive, client)",
    ),
    script(
        "fair-place-not-given-up",
        RELEASE,
        "call('ZREM', queue, address)",
        "",
    ),
    script(
        "fair-flag-not-set",
        ACQUIRE,
        "redis.call('HSET', k, 'n', last)",
        "",
    ),
    script(
        "fair-queue-without-end",
        ACQUIRE,
        "elseif redis.call('ZCARD', q) == 1 then",
        "elseif false then",
    ),
    script(
        "fair-granted-keeps-its-place",
        ACQUIRE,
        "call('ZREM', KEYS[at + 1], e.address)",
        "",
    ),
    script(
        "fair-granted-ahead-keeps-its-place",
        RELEASE,
        "redis.call('ZREM', queue, head)",
        "",
    ),
    script(
        "fair-granted-ahead-with-an-old-token",
        RELEASE,
        "new = string.format('%.0f', token + 1)",
        "new = token",
    )
    .within("clocks-within"),
    client("fair-reply-tells-nobody", Rule::HandOverGrants),
    client("fair-grant-dated-by-reception", Rule::DateBySending),
    client("fair-grant-without-nonce-believed", Rule::CheckNonce).within("forged-calls"),
    client("fair-abandoned-not-undone", Rule::UndoAbandoned),
    client("fair-waiter-not-struck-out", Rule::StrikeOut),
    client("fair-never-looks-again", Rule::LookAgain),
    client("fair-no-try-after-subscribing", Rule::TryAfterSubscribing),
    client("fair-ghost-not-withdrawn", Rule::WithdrawStrays).within("comes-back"),
    mutant("fair-refused-undo-dropped", What::DropsRefused).within("refusals"),
];
