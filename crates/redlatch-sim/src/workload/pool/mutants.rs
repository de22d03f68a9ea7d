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

/// Planted faults of the semaphore.
pub(super) const SEMAPHORE: &[Mutant] = &[
    script(
        "semaphore-one-too-many",
        ACQUIRE,
        "and out + pool.need <= size then",
        "and out + pool.need <= size + 1 then",
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
        "elseif withdrawn or e.n <= top and not placed(e) then",
        "elseif withdrawn then",
    ),
    script(
        "semaphore-late-accepted",
        ACQUIRE,
        "if string.sub(began, 1, 13) > ARGV[1] or",
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
        "semaphore-release-calls-nobody",
        RELEASE,
        "    pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, {}, not f[7] and grants)\n",
        "",
    ),
    script(
        "semaphore-overtakes",
        ACQUIRE,
        "return ring, gone, not blocked and room or nil, latest",
        "return ring, gone, room, latest",
    ),
    script(
        "semaphore-small-ones-pass",
        ACQUIRE,
        "      room = room - need\n      local new",
        "      local new",
    ),
    script(
        "semaphore-last-come-first-served",
        ACQUIRE,
        "join[2 * j - 1], join[2 * j] = ticket, e.member",
        "join[2 * j - 1], join[2 * j] = -ticket, e.member",
    ),
    script(
        "semaphore-crowd-gets-one-too-many",
        ACQUIRE,
        "write, unserved = (size or 0) - out,",
        "write, unserved = (size or 0) - out + 1,",
    ),
    script(
        "semaphore-crowd-release-not-counted",
        RELEASE,
        "'c', out\n    if sizes then",
        "'c', pool[2] and f[3] or out\n    if sizes then",
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
        "if who == '' and e.entered ~= 1 then",
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
        "and out + pool.need <= size then",
        "and out + pool.need <= size + 1 then",
    ),
    script(
        "permits-index-believed",
        ACQUIRE,
        "if hold and string.sub(hold, 1, 13) > now then",
        "if false then",
    ),
    script(
        "permits-void-ignored",
        ACQUIRE,
        "elseif withdrawn or e.n <= top and not placed(e) then",
        "elseif withdrawn then",
    ),
    script(
        "permits-release-not-counted",
        RELEASE,
        "write[#write + 1], write[#write + 2] = 'c', out",
        "",
    ),
    script(
        "permits-copies-count-twice",
        ACQUIRE,
        "            holds = true\n",
        "",
    ),
    script(
        "permits-release-calls-nobody",
        RELEASE,
        "    pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, {}, not f[7] and grants)\n",
        "",
    ),
    script(
        "permits-overtakes",
        ACQUIRE,
        "return ring, gone, not blocked and room or nil, latest",
        "return ring, gone, room, latest",
    ),
    script(
        "permits-small-ones-pass",
        ACQUIRE,
        "      room = room - need\n      local new",
        "      local new",
    ),
    script(
        "permits-last-come-first-served",
        ACQUIRE,
        "join[2 * j - 1], join[2 * j] = ticket, e.member",
        "join[2 * j - 1], join[2 * j] = -ticket, e.member",
    ),
    client("permits-abandoned-not-undone", Rule::UndoAbandoned),
    client("permits-copies-not-marked", Rule::MarkCopies).under(Fault::Doubled),
];
