//! The planted faults that runs of the semaphores must find.

use redlatch_core::family::Rule;
use redlatch_lua::{POOL, Source};

use crate::{
    faults::Fault,
    mutants::{Mutant, client, script},
};

const ACQUIRE: &Source = &POOL.acquire;
const RELEASE: &Source = &POOL.release;
const RENEW: &Source = &POOL.renew;
const ACQUIRE_SOME: &Source = &POOL.acquire_some;
const RELEASE_SOME: &Source = &POOL.release_some;

/// Planted faults of the semaphore.
pub(super) const SEMAPHORE: &[Mutant] = &[
    script(
        "semaphore-one-too-many",
        ACQUIRE,
        "local room = size - out",
        "local room = size - out + 1",
    ),
    script(
        "semaphore-reaped-early",
        ACQUIRE,
        "if hold and string.sub(hold, 1, 13) > now then",
        "if hold and string.sub(hold, 1, 13) > (now + 200) .. '' then",
    ),
    script(
        "semaphore-index-believed",
        ACQUIRE,
        "if hold and string.sub(hold, 1, 13) > now then",
        "if false then",
    ),
    script(
        "semaphore-renewal-not-stored",
        RENEW,
        "call('HSET', k, unpack(write))",
        "",
    ),
    script(
        "semaphore-void-ignored",
        ACQUIRE,
        "return {now, 'void'}",
        "",
    ),
    script(
        "semaphore-late-accepted",
        ACQUIRE,
        "if now > ARGV[1] or",
        "if",
    ),
    script(
        "semaphore-release-leaves-no-mark",
        RELEASE,
        "if void ~= '' and void >= now then",
        "if false then",
    ),
    script(
        "semaphore-release-not-counted",
        RELEASE,
        "write[#write + 1], write[#write + 2] = 'c', out",
        "",
    ),
    script(
        "semaphore-part-frees-all",
        RELEASE,
        "verdict, left = 'released', keeps",
        "verdict, left = 'released', 0",
    ),
    script(
        "semaphore-copies-count-twice",
        ACQUIRE,
        "      granted = true",
        "      over[1] = nil",
    ),
    script(
        "semaphore-release-calls-nobody",
        RELEASE,
        "  pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, write, not f[7] and grants)",
        "  call('HSET', k, 'c', out)",
    ),
    script(
        "semaphore-overtakes",
        ACQUIRE,
        "left, place = pool_left(view, room, size, member, need)",
        "left, place = room, 0",
    ),
    script(
        "semaphore-small-ones-pass",
        ACQUIRE,
        "      room = room - other\n      if room < need then",
        "      if room < need then",
    ),
    script(
        "semaphore-last-come-first-served",
        ACQUIRE,
        "redis.call('ZADD', q, 'NX', ticket, member)",
        "redis.call('ZADD', q, 'NX', -ticket, member)",
    ),
    script(
        "semaphore-crowd-gets-one-too-many",
        ACQUIRE_SOME,
        "local room = size - out",
        "local room = size - out + 1",
    ),
    script(
        "semaphore-crowd-release-calls-nobody",
        RELEASE_SOME,
        "    pool_serve(k, d, q, l, now, f[5], f[6], size - out, size, {}, not f[7] and grants)",
        "",
    ),
    script(
        "semaphore-clients-not-kept-alive",
        ACQUIRE,
        "local FRESH = 100\n",
        "local FRESH = 5000\n",
    ),
    script(
        "semaphore-granted-ahead-keeps-its-place",
        RELEASE,
        "        gone = gone or {}
        gone[#gone + 1] = member
      else
        if first",
        "      else
        if first",
    ),
    script(
        "semaphore-granted-ahead-not-counted",
        RELEASE,
        "grants.out = grants.out + need",
        "",
    ),
    script(
        "semaphore-granted-ahead-not-indexed",
        RELEASE,
        "redis.call('ZADD', d, unpack(grants.index))",
        "",
    ),
    script(
        "semaphore-unheard-grant-not-told",
        ACQUIRE,
        "if who == '' and member and entered == 0 then",
        "if false then",
    )
    .under(Fault::PubSubCut),
    client("semaphore-grant-dated-by-reception", Rule::DateBySending),
    client("semaphore-grant-without-nonce-believed", Rule::CheckNonce).within("forged-calls"),
    client("semaphore-abandoned-not-undone", Rule::UndoAbandoned),
    client("semaphore-never-renewed", Rule::Renew),
    client("semaphore-ghost-not-withdrawn", Rule::WithdrawStrays).within("comes-back"),
];

/// Planted faults of the permit-expirable semaphore.
pub(super) const PERMITS: &[Mutant] = &[
    script(
        "permits-one-too-many",
        ACQUIRE,
        "local room = size - out",
        "local room = size - out + 1",
    ),
    script(
        "permits-index-believed",
        ACQUIRE,
        "if hold and string.sub(hold, 1, 13) > now then",
        "if false then",
    ),
    script("permits-void-ignored", ACQUIRE, "return {now, 'void'}", ""),
    script(
        "permits-release-not-counted",
        RELEASE,
        "write[#write + 1], write[#write + 2] = 'c', out",
        "",
    ),
    script(
        "permits-copies-count-twice",
        ACQUIRE,
        "      granted = true",
        "      over[1] = nil",
    ),
    script(
        "permits-release-calls-nobody",
        RELEASE,
        "  pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, write, not f[7] and grants)",
        "  call('HSET', k, 'c', out)",
    ),
    script(
        "permits-overtakes",
        ACQUIRE,
        "left, place = pool_left(view, room, size, member, need)",
        "left, place = room, 0",
    ),
    script(
        "permits-small-ones-pass",
        ACQUIRE,
        "      room = room - other\n      if room < need then",
        "      if room < need then",
    ),
    script(
        "permits-last-come-first-served",
        ACQUIRE,
        "redis.call('ZADD', q, 'NX', ticket, member)",
        "redis.call('ZADD', q, 'NX', -ticket, member)",
    ),
    client("permits-abandoned-not-undone", Rule::UndoAbandoned),
    client("permits-copies-not-marked", Rule::MarkCopies).under(Fault::Doubled),
];
