//! The planted faults that runs of the latch must find.

use redlatch_core::family::Rule;
use redlatch_lua::{LATCH, Source};

use crate::{
    faults::Fault,
    mutants::{Mutant, client, script},
};

const SET: &Source = &LATCH.set;
const COUNT_DOWN: &Source = &LATCH.count_down;
const DELETE: &Source = &LATCH.delete;
const LOOK: &Source = &LATCH.look;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "latch-counts-twice",
        COUNT_DOWN,
        "if known then",
        "if false then",
    ),
    script(
        "latch-late-accepted",
        COUNT_DOWN,
        "if now > ARGV[1] or",
        "if",
    ),
    script(
        "latch-forgets-at-once",
        COUNT_DOWN,
        "stamp + keep * 1000, op",
        "stamp, op",
    ),
    script(
        "latch-refusal-forgotten",
        COUNT_DOWN,
        "elseif call('ZSCORE', ops, op .. '!') then",
        "elseif false then",
    ),
    script(
        "latch-opens-one-early",
        COUNT_DOWN,
        "if left < 0 then",
        "if left < 2 then",
    ),
    script(
        "latch-opens-in-silence",
        COUNT_DOWN,
        "publish(ARGV[5], ARGV[6], 'open ' .. g)",
        "",
    ),
    script(
        "latch-copy-takes-the-next-generation",
        COUNT_DOWN,
        "if count and at >= g + 0 then",
        "if count then",
    ),
    script(
        "latch-set-while-shut",
        SET,
        "if left and left ~= '0' then",
        "if left and left ~= '0' and left ~= '1' then",
    ),
    script(
        "latch-set-twice",
        SET,
        "elseif call('ZSCORE', ops, op) then",
        "elseif false then",
    ),
    script(
        "latch-set-though-refused",
        SET,
        "elseif call('ZSCORE', ops, op .. '!') then",
        "elseif false then",
    ),
    script(
        "latch-without-end",
        SET,
        "call('PEXPIRE', key, ttl)",
        "call('PERSIST', key)",
    ),
    script(
        "latch-memory-without-end",
        SET,
        "if there == 0 then",
        "if false then",
    ),
    script(
        "latch-deleted-counts-as-open",
        DELETE,
        "if shut then\n  call('HSET', key, 't', stamp)",
        "if false then\n  call('HSET', key, 't', stamp)",
    ),
    script(
        "latch-deletes-twice",
        DELETE,
        "elseif call('ZSCORE', ops, op) then",
        "elseif false then",
    ),
    script(
        "latch-deleted-looks-open",
        LOOK,
        "local fate = 'deleted'",
        "local fate = 'open'",
    ),
    script(
        "latch-later-looks-shut",
        LOOK,
        "if g == present and left then",
        "if left then",
    ),
    client("latch-resend-new-id", Rule::ResendSameId),
    client("latch-by-unlimited", Rule::LimitBy),
    client("latch-old-look-counts", Rule::LookAfresh),
    client("latch-any-message-counts", Rule::ConfirmMessages),
    client("latch-no-look-after-subscribing", Rule::TryAfterSubscribing),
    client("latch-no-wake-after-gap", Rule::WakeAfterGap),
    client("latch-never-looks-again", Rule::LookAgain).under(Fault::MessageLost),
    script(
        "latch-unknown-is-open",
        LOOK,
        "elseif string.find(opened, ' ' .. g .. '-', 1, true) then",
        "elseif present and g <= present then",
    )
    .within("forgotten-latch"),
];
