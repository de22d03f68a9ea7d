//! The planted faults that runs of the read-write lock must find.

use redlatch_core::family::Rule;
use redlatch_lua::{RWLOCK, Source};

use crate::mutants::{Mutant, client, script};

const READ: &Source = &RWLOCK.read;
const WRITE: &Source = &RWLOCK.write;
const DOWNGRADE: &Source = &RWLOCK.downgrade;
const RELEASE: &Source = &RWLOCK.release;
const RENEW: &Source = &RWLOCK.renew;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "rwlock-writer-beside-readers",
        WRITE,
        "elseif s.count > own then",
        "elseif false then",
    ),
    script(
        "rwlock-reader-beside-writer",
        READ,
        "local writes = s.writer and s.ends > now",
        "local writes = s.writer and s.ends > (now + 100) .. ''",
    ),
    script(
        "rwlock-reaps-the-living",
        WRITE,
        "return hold and string.sub(hold, 1, 13) > now and",
        "return hold and string.sub(hold, 1, 13) > (now + 1000) .. '' and",
    ),
    script(
        "rwlock-index-decides",
        WRITE,
        "if lasts(hold, now) then\n      local ends",
        "if false then\n      local ends",
    ),
    script(
        "rwlock-readers-not-told",
        RELEASE,
        "tell_readers(s.key)",
        "",
    ),
    script(
        "rwlock-writer-not-called",
        RELEASE,
        "queue_call(s.key, now, member)\n  end",
        "end",
    ),
    script(
        "rwlock-writer-first",
        RELEASE,
        "reader and (ended and not s.writer or not writes) then",
        "reader and not writes then",
    ),
    script(
        "rwlock-readers-all-come",
        READ,
        "elseif first and not is_upgradable(first) then",
        "elseif false then",
    ),
    script(
        "rwlock-upgrade-before-readers",
        WRITE,
        "elseif waited then\n    local reader",
        "elseif own == 1 then\n    free = true\n  elseif waited then\n    local reader",
    ),
    script(
        "rwlock-stale-token",
        READ,
        "local serial, token, short, abandoned = micros, s.token, '', 0",
        "local serial, token, short, abandoned = micros, s.released, '', 0",
    ),
    script(
        "rwlock-release-ends-all",
        RELEASE,
        "if held ~= ' ' then",
        "if false then",
    ),
    script(
        "rwlock-count-not-lowered",
        RELEASE,
        "s.count = s.count - 1\n    end\n    if live then",
        "end\n    if live then",
    ),
    script(
        "rwlock-late-accepted",
        WRITE,
        "if string.sub(began, 1, 13) > ARGV[1] or",
        "if",
    ),
    script("rwlock-void-ignored", READ, "return now .. ' void'", ""),
    script(
        "rwlock-renewal-shortens",
        RENEW,
        "if ends > string.sub(hold, 1, 13) then",
        "if true then",
    ),
    script(
        "rwlock-downgrade-keeps-writing",
        DOWNGRADE,
        "and end_write(s, ARGV[6], now) and",
        "and false and",
    ),
    script(
        "rwlock-hold-without-end",
        WRITE,
        "redis.call('PEXPIRE', key, ttl)
  return new",
        "return new",
    ),
    script(
        "rwlock-granted-ahead-keeps-its-place",
        RELEASE,
        "redis.call('ZREM', queue, head)",
        "",
    ),
    script(
        "rwlock-granted-ahead-with-an-old-token",
        RELEASE,
        "new = string.format('%.0f', token + 1)",
        "new = token",
    )
    .within("clocks-within"),
    script(
        "rwlock-granted-ahead-before-readers",
        RELEASE,
        "return not batch_reader(s, readers, reader, now) and",
        "return",
    ),
    client("rwlock-grant-without-nonce-believed", Rule::CheckNonce).within("forged-calls"),
    client("rwlock-abandoned-not-undone", Rule::UndoAbandoned),
    client("rwlock-waiter-not-struck-out", Rule::StrikeOut),
    client("rwlock-no-try-after-subscribing", Rule::TryAfterSubscribing),
    client("rwlock-never-looks-again", Rule::LookAgain),
];
