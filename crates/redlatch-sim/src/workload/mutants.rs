//! The planted faults that the runs of each kind must find.

use redlatch_core::family::Rule;
use redlatch_lua::{ELECTION, FAIR, FENCE, LATCH, LIMIT, ONCE, POOL, REENTRANT, RWLOCK};

use crate::{
    faults::Fault,
    mutants::{Mutant, What, client, mutant, script},
};

/// The world in which replicas confirm grants and renewals.
const DURABLE: &str = "two-masters-durable";

/// The plain lock: its scripts, and the rules of the client that all kinds share.
pub(super) const LOCK: &[Mutant] = &[
    script!("early-grant", REENTRANT.acquire, unseen, "if held and owner ~= e.owner or"
        => "if held and until_ms > (now + 100) .. '' and owner ~= e.owner or"),
    script!("void-ignored", REENTRANT.acquire, "return now .. ' void'" => ""),
    script!("grant-not-recorded", REENTRANT.acquire, under(Fault::Doubled),
        "'u', ends, 'v', spent, 'z', token)" => "'u', ends, 'z', token)"),
    script!("entry-not-recorded", REENTRANT.acquire, under(Fault::Doubled), unseen,
        "'u', later, 'v', has.spent)" => "'u', later)"),
    script!("busy-try-not-recorded", REENTRANT.acquire, under(Fault::Doubled),
        "redis.pcall('HSET', key, 'v', spent)" => ""),
    script!("late-accepted", REENTRANT.acquire, "if string.sub(began, 1, 13) > ARGV[1] or" => "if"),
    script!("token-repeats", REENTRANT.acquire, "token = micros\n    if last and token <= last then"
        => "token = last or micros\n    if false then"),
    script!("reentry-not-counted", REENTRANT.acquire, unseen,
        "held = held .. attempt .. ' '" => ""),
    script!("reentry-shortens", REENTRANT.acquire, unseen,
        "if has.ends > ends or h[2] == token then" => "if false then"),
    script!("waiter-not-registered", REENTRANT.acquire,
        "redis.call('ZADD', KEYS[at + 1], alive, e.address)" => ""),
    script!("queue-without-end", REENTRANT.acquire,
        "redis.call('PEXPIRE', KEYS[at + 1], last - now)" => ""),
    script!("hold-without-end", REENTRANT.acquire, "redis.call('PEXPIRE', key, ttl)" => ""),
    script!("release-frees-all", REENTRANT.release, unseen,
        "if attempts == ' ' and live then" => "if live then"),
    script!("release-wakes-nobody", REENTRANT.release, "publish(verb, channel, key)" => ""),
    script!("release-leaves-no-mark", REENTRANT.release, under(Fault::Doubled),
        "if void ~= '' and void >= now then" => "if false then"),
    script!("renewal-shortens", REENTRANT.renew, unseen,
        "if until_ms > ends then" => "if false then"),
    script!("force-leaves-no-trace", REENTRANT.force, under(Fault::Force), unseen,
        "'u', '0000000000000', 'f', token)" => "'u', '0000000000000')"),
    script!("force-hits-any-hold", REENTRANT.force, under(Fault::Force), unseen,
        "ends > now and current == token" => "ends > now"),
    script!("forced-is-renewed", REENTRANT.renew, unseen,
        "elseif forced == token then" => "elseif false then"),
    script!("force-wakes-nobody", REENTRANT.force, under(Fault::Force), unseen,
        "publish(verb, channel, key)" => ""),
    script!("key-outlives-retention", REENTRANT.acquire,
        "call('PEXPIRE', key, life)" => "call('PEXPIRE', key, life * 100)"),
    script!("queue-outlives-waiters", REENTRANT.acquire, "call('PEXPIRE', KEYS[at + 1], last - now)"
        => "call('PEXPIRE', KEYS[at + 1], (last - now) * 100)"),
    script!("plain-grant-of-held", REENTRANT.acquire, "if owner or waiters" => "if waiters"),
    script!("plain-void-ignored", REENTRANT.acquire, under(Fault::Doubled),
        "if refused then\n    return nil" => "if false then\n    return nil"),
    script!("plain-token-repeats", REENTRANT.acquire,
        "if new <= token then" => "new = token\n    if false then"),
    script!("plain-release-frees-all", REENTRANT.release, unseen, "held ~= attempts or" => ""),
    script!("plain-release-wakes-nobody", REENTRANT.release, slow, "or waiters or" => "or"),
    script!("plain-release-ends-later-hold", REENTRANT.release,
        "current ~= token or held ~= attempts or" => ""),
    mutant("undelivered-is-renewed", What::Detached),
    mutant("ids-collide", What::IdsCollide),
    client("renewal-ends-with-one-guard", Rule::RenewForEach).slow(),
    client("abandoned-not-undone", Rule::UndoAbandoned),
    client("copies-not-marked", Rule::MarkCopies).under(Fault::Doubled),
    client("lease-from-reply", Rule::CountFromSend),
    client("renewal-from-reply", Rule::CountRenewalFromSend).slow(),
    client("no-margin", Rule::TakeMargin),
    client("loss-not-latched", Rule::LatchLoss),
    client("resend-new-id", Rule::ResendSameId),
    client("no-try-after-subscribing", Rule::TryAfterSubscribing),
    client("no-wake-after-gap", Rule::WakeAfterGap),
    client("by-unlimited", Rule::LimitBy),
    client("release-not-retried", Rule::RetryReleases),
    client("drop-releases-nothing", Rule::ReleaseOnDrop),
    client("never-renewed", Rule::Renew),
    client("turn-not-passed", Rule::PassTurn),
    client("next-waiter-not-prompted", Rule::PromptNextWaiter),
    client("waiter-never-registers", Rule::Register),
    client("waiter-not-struck-out", Rule::StrikeOut).slow(),
    client("loss-not-told", Rule::TellByClock),
    client("never-looks-again", Rule::LookAgain),
    mutant("clock-allowance-not-asked", What::AsksNoAllowance).within("clocks-within"),
    mutant("refused-undo-dropped", What::DropsRefused).within("refusals"),
    mutant(
        "strange-taken-for-refusal",
        What::TakesStrangeFor("LOADING"),
    )
    .within("strange-words"),
    mutant("strange-is-final", What::TakesStrangeFor("CROSSSLOT")).within("strange-words"),
    client("starts-with-all-only", Rule::StartWithoutSome).within("dead-master"),
    client("shortfall-ignored", Rule::RefuseShortfall).within(DURABLE),
    client("unknown-confirmations-count", Rule::KnowConfirmations)
        .under(Fault::Torn)
        .within(DURABLE)
        .slow(),
    client("renewals-not-durable", Rule::RenewDurably).within(DURABLE),
    client("renewal-shortfall-ignored", Rule::ConfirmRenewals).within(DURABLE),
    client("majority-of-present", Rule::CountMostReplicas).within(DURABLE),
    mutant("waits-on-another-connection", What::WaitsElsewhere).within(DURABLE),
    mutant("takeover-allowance-not-asked", What::AsksNoAllowance).within(DURABLE),
    client("moved-not-followed", Rule::FollowMoved).within("two-masters"),
    client("ask-without-asking", Rule::SendAsking).within("moving-slots"),
    client("demoted-not-left", Rule::LeaveDemoted).within("two-masters"),
    client("cut-off-not-undone", Rule::UndoCutOff).within("late-replies"),
];

/// The fair lock.
pub(super) const FAIR_LOCK: &[Mutant] = &[
    script!("fair-overtakes", FAIR.exclusive.acquire,
        "if not held and has.waiters <= now then" => "if not held then"),
    script!("fair-last-come-first-served", FAIR.exclusive.acquire,
        "redis.call('ZADD', q, 'NX', micros, member) == 0"
        => "redis.call('ZADD', q, 'NX', -micros, member) == 0"),
    script!("fair-head-not-called", FAIR.exclusive.release,
        "elseif not queue_is_called(called, head) then" => "elseif false then"),
    script!("fair-dead-not-skipped", FAIR.exclusive.acquire, unseen,
        "if alive and alive > now then" => "if alive then"),
    script!("fair-living-skipped", FAIR.exclusive.acquire,
        "redis.call('ZADD', l, alive, client)" => "redis.call('ZADD', l, 'NX', alive, client)"),
    script!("fair-place-not-given-up", FAIR.exclusive.release,
        "call('ZREM', queue, address)" => ""),
    script!("fair-flag-not-set", FAIR.exclusive.acquire, "redis.call('HSET', k, 'n', last)" => ""),
    script!("fair-queue-without-end", FAIR.exclusive.acquire,
        "elseif redis.call('ZCARD', q) == 1 then" => "elseif false then"),
    script!("fair-granted-keeps-its-place", FAIR.exclusive.acquire,
        "call('ZREM', KEYS[at + 1], e.address)" => ""),
    script!("fair-granted-ahead-keeps-its-place", FAIR.exclusive.release,
        "redis.call('ZREM', queue, head)" => ""),
    script!("fair-granted-ahead-with-an-old-token", FAIR.exclusive.release, within("clocks-within"),
        "new = string.format('%.0f', token + 1)" => "new = token"),
    client("fair-reply-tells-nobody", Rule::HandOverGrants),
    client("fair-grant-dated-by-reception", Rule::DateBySending).slow(),
    client("fair-grant-without-nonce-believed", Rule::CheckNonce).within("forged-calls"),
    client("fair-abandoned-not-undone", Rule::UndoAbandoned),
    client("fair-waiter-not-struck-out", Rule::StrikeOut),
    client("fair-never-looks-again", Rule::LookAgain),
    client("fair-no-try-after-subscribing", Rule::TryAfterSubscribing).slow(),
    client("fair-ghost-not-withdrawn", Rule::WithdrawStrays).within("comes-back"),
    mutant("fair-refused-undo-dropped", What::DropsRefused).within("refusals"),
];

/// The latch.
pub(super) const LATCHES: &[Mutant] = &[
    script!("latch-counts-twice", LATCH.count_down, "if known then" => "if false then"),
    script!("latch-late-accepted", LATCH.count_down, slow, "if now > ARGV[1] or" => "if"),
    script!("latch-forgets-at-once", LATCH.count_down, "stamp + keep * 1000, op" => "stamp, op"),
    script!("latch-refusal-forgotten", LATCH.count_down, slow,
        "elseif call('ZSCORE', ops, op .. '!') then" => "elseif false then"),
    script!("latch-opens-one-early", LATCH.count_down, "if left < 0 then" => "if left < 2 then"),
    script!("latch-opens-in-silence", LATCH.count_down,
        "publish(ARGV[5], ARGV[6], 'open ' .. g)" => ""),
    script!("latch-copy-takes-the-next-generation", LATCH.count_down,
        "if count and at >= g + 0 then" => "if count then"),
    script!("latch-set-while-shut", LATCH.set,
        "if left and left ~= '0' then" => "if left and left ~= '0' and left ~= '1' then"),
    script!("latch-set-twice", LATCH.set,
        "elseif call('ZSCORE', ops, op) then" => "elseif false then"),
    script!("latch-set-though-refused", LATCH.set,
        "elseif call('ZSCORE', ops, op .. '!') then" => "elseif false then"),
    script!("latch-without-end", LATCH.set, "call('PEXPIRE', key, ttl)" => "call('PERSIST', key)"),
    script!("latch-memory-without-end", LATCH.set, "if there == 0 then" => "if false then"),
    script!("latch-deleted-counts-as-open", LATCH.delete,
        "if shut then\n  call('HSET', key, 't', stamp)"
        => "if false then\n  call('HSET', key, 't', stamp)"),
    script!("latch-deletes-twice", LATCH.delete, slow,
        "elseif call('ZSCORE', ops, op) then" => "elseif false then"),
    script!("latch-deleted-looks-open", LATCH.look,
        "local fate = 'deleted'" => "local fate = 'open'"),
    script!("latch-later-looks-shut", LATCH.look,
        "if g == present and left then" => "if left then"),
    client("latch-resend-new-id", Rule::ResendSameId),
    client("latch-by-unlimited", Rule::LimitBy).slow(),
    client("latch-old-look-counts", Rule::LookAfresh),
    client("latch-any-message-counts", Rule::ConfirmMessages),
    client("latch-no-look-after-subscribing", Rule::TryAfterSubscribing),
    client("latch-no-wake-after-gap", Rule::WakeAfterGap),
    client("latch-never-looks-again", Rule::LookAgain).under(Fault::MessageLost),
    script!("latch-unknown-is-open", LATCH.look, within("forgotten-latch"),
        "elseif string.find(opened, ' ' .. g .. '-', 1, true) then"
        => "elseif present and g <= present then"),
];

/// The rate limiter.
pub(super) const LIMITS: &[Mutant] = &[
    script!("limit-copy-passes-again", LIMIT.acquire, "if not refused then" => "if true then"),
    script!("limit-copy-is-void", LIMIT.acquire,
        "return nil, d, spent, '', (passes or 0) + 0," => "return nil, d, spent, '', 0,"),
    script!("limit-refusal-forgotten", LIMIT.acquire,
        "redis.pcall('HSET', key, 'd', d, 'v', spent)" => ""),
    script!("limit-late-accepted", LIMIT.acquire,
        "if string.sub(began, 1, 13) > ARGV[1] or" => "if"),
    script!("limit-one-too-many", LIMIT.acquire,
        "span(burst - cost, count, period)" => "span(burst + 1 - cost, count, period)"),
    script!("limit-fractions-lost", LIMIT.acquire,
        "return debt + 1, part - count" => "return debt, part - count"),
    script!("limit-slower-rate-forgives", LIMIT.acquire,
        "if count and (count ~= old_count or period ~= old_period) then" => "if false then"),
    script!("limit-faster-rate-goes-first", LIMIT.acquire,
        "since > clock and min(since - clock, debt) or 0" => "0"),
    script!("limit-wait-is-free", LIMIT.acquire,
        "add(debt, part, price," => "add(debt, part, wait > 0 and 0 or price,"),
    script!("limit-copy-of-a-wait-counts-at-once", LIMIT.acquire,
        "wait = ahead and" => "wait = false and"),
    script!("limit-paid-given-back", LIMIT.settle,
        "min(span(-tokens, count, period), mark - shift - clock, debt)"
        => "min(span(-tokens, count, period), debt)"),
    script!("limit-given-back-under-a-later-pass", LIMIT.settle,
        "if turn == '0' then" => "if true then"),
    client("limit-resend-new-id", Rule::ResendSameId),
    client("limit-by-unlimited", Rule::LimitBy),
    client("limit-turn-not-passed", Rule::PassTurn),
    client("limit-pass-used-early", Rule::WaitUntilItCounts),
];

/// Jobs. Faults that let late copies of a claim act are not among them: a copy has to find the job
/// as its caller saw it as well, which seeds do not bring about. The scripts' test against a model
/// finds them, `late_copies_that_act_are_noticed`.
pub(super) const JOBS: &[Mutant] = &[
    script!("once-success-forgotten", ONCE.release, "call('HSET', key, 'w', record)" => ""),
    script!("once-keyed-success-forgotten", ONCE.release,
        "keyed_put(key, slot, record, (now + ARGV[9]) .. '')"
        => "keyed_put(key, slot, record, (now + 1) .. '')"),
    script!("once-seen-ignored", ONCE.claim, slow,
        "if ARGV[7] ~= (last or '') .. ' ' .. (holder and '1' or '0') or from" => "if from"),
    script!("once-attempt-not-counted", ONCE.claim,
        "with_attempts(g[2], slot, attempts)" => "with_attempts(g[2], slot, attempts - 1)"),
    script!("once-keyed-attempt-not-counted", ONCE.claim, slow,
        "'run ' .. attempts .. ' '" => "'run ' .. attempts - 1 .. ' '"),
    script!("once-failure-counts-as-undone", ONCE.release,
        "if outcome == '' then" => "if outcome ~= 'done' then"),
    script!("once-undone-counts-as-run", ONCE.release, "if outcome == '' then" => "if false then"),
    script!("once-token-repeats", ONCE.claim,
        "if last and token <= last then" => "token = last or token\nif false then"),
    script!("once-renews-nothing", ONCE.renew, "call('HSET', key, 'u', ends)" => ""),
    script!("once-anybody-releases", ONCE.release,
        "if holder and holder == ARGV[1] and claimed == attempt then" => "if holder then"),
    script!("once-claim-outlives-its-release", ONCE.release,
        "call('HDEL', key, 'o', 'h', 'u', 's', 'c', 'b', 'i')" => ""),
    script!("once-key-without-end", ONCE.claim, "live(key, ttl)\nreturn" => "return"),
    script!("once-look-hides-successes", ONCE.look, "'e', 'w', 'p'" => "'e', 'W', 'p'"),
    client("once-abandoned-not-undone", Rule::UndoAbandoned),
    client("once-lease-from-reply", Rule::CountFromSend).slow(),
    client("once-resend-new-id", Rule::ResendSameId),
    client("once-release-not-retried", Rule::RetryReleases).under(Fault::Refusal),
    client("once-drop-releases-nothing", Rule::ReleaseOnDrop),
    client("once-never-renewed", Rule::Renew),
];

/// The faults that the runs of both semaphores must find, and those of one of them.
macro_rules! pooled {
    ($kind:literal, $($own:expr,)*) => {
        &[
            script!(concat!($kind, "-one-too-many"), POOL.acquire,
                "and out + pool.need <= size then" => "and out + pool.need <= size + 1 then"),
            script!(concat!($kind, "-index-believed"), POOL.acquire,
                "if hold and string.sub(hold, 1, 13) > now then" => "if false then"),
            script!(concat!($kind, "-void-ignored"), POOL.acquire,
                "elseif withdrawn or e.n <= top and not placed(e) then" => "elseif withdrawn then"),
            script!(concat!($kind, "-release-not-counted"), POOL.release,
                "write[#write + 1], write[#write + 2] = 'c', out" => ""),
            script!(concat!($kind, "-release-calls-nobody"), POOL.release,
                "    pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, {}, not f[7] and grants)\n"
                => ""),
            script!(concat!($kind, "-overtakes"), POOL.acquire,
                "return ring, gone, not blocked and room or nil, latest"
                => "return ring, gone, room, latest"),
            script!(concat!($kind, "-small-ones-pass"), POOL.acquire,
                "      room = room - need\n      local new" => "      local new"),
            script!(concat!($kind, "-last-come-first-served"), POOL.acquire,
                "join[2 * j - 1], join[2 * j] = ticket, e.member"
                => "join[2 * j - 1], join[2 * j] = -ticket, e.member"),
            $($own,)*
        ]
    };
}

/// The semaphore.
pub(super) const SEMAPHORE: &[Mutant] = pooled![
    "semaphore",
    script!("semaphore-reaped-early", POOL.acquire, "if hold and string.sub(hold, 1, 13) > now then"
        => "if hold and string.sub(hold, 1, 13) > (now + 200) .. '' then"),
    script!("semaphore-renewal-not-stored", POOL.renew, "call('HSET', k, unpack(write))" => ""),
    script!("semaphore-late-accepted", POOL.acquire, slow,
        "if string.sub(began, 1, 13) > ARGV[1] or" => "if"),
    script!("semaphore-release-leaves-no-mark", POOL.release, under(Fault::ReplyLost),
        "if void ~= '' and void >= now then" => "if false then"),
    script!("semaphore-part-frees-all", POOL.release,
        "verdict, left = 'released', keeps" => "verdict, left = 'released', 0"),
    script!("semaphore-crowd-gets-one-too-many", POOL.acquire,
        "write, unserved = (size or 0) - out," => "write, unserved = (size or 0) - out + 1,"),
    script!("semaphore-crowd-release-not-counted", POOL.release,
        "'c', out\n    if sizes then" => "'c', pool[2] and f[3] or out\n    if sizes then"),
    script!("semaphore-clients-not-kept-alive", POOL.acquire,
        "local FRESH = 100\n" => "local FRESH = 5000\n"),
    script!("semaphore-granted-ahead-keeps-its-place", POOL.release,
        "        gone = gone or {}\n        gone[#gone + 1] = member\n      else\n        if first"
        => "      else\n        if first"),
    script!("semaphore-granted-ahead-not-counted", POOL.release,
        "grants.out = grants.out + need" => ""),
    script!("semaphore-granted-ahead-not-indexed", POOL.release,
        "redis.call('ZADD', d, unpack(grants.index))" => ""),
    client("semaphore-grant-dated-by-reception", Rule::DateBySending).slow(),
    client("semaphore-grant-without-nonce-believed", Rule::CheckNonce).within("forged-calls"),
    client("semaphore-abandoned-not-undone", Rule::UndoAbandoned).slow(),
    client("semaphore-never-renewed", Rule::Renew),
    client("semaphore-ghost-not-withdrawn", Rule::WithdrawStrays).within("comes-back"),
];

/// The permit-expirable semaphore.
pub(super) const PERMITS: &[Mutant] = pooled![
    "permits",
    script!("permits-copies-count-twice", POOL.acquire, "            holds = true\n" => ""),
    client("permits-abandoned-not-undone", Rule::UndoAbandoned).slow(),
    client("permits-copies-not-marked", Rule::MarkCopies).under(Fault::Doubled),
];

/// The read-write lock.
pub(super) const READ_WRITE: &[Mutant] = &[
    script!("rwlock-writer-beside-readers", RWLOCK.write,
        "elseif s.count > own then" => "elseif false then"),
    script!("rwlock-reader-beside-writer", RWLOCK.read, "local writes = s.writer and s.ends > now"
        => "local writes = s.writer and s.ends > (now + 100) .. ''"),
    script!("rwlock-reaps-the-living", RWLOCK.write,
        "return hold and string.sub(hold, 1, 13) > now and"
        => "return hold and string.sub(hold, 1, 13) > (now + 1000) .. '' and"),
    script!("rwlock-index-decides", RWLOCK.write,
        "if lasts(hold, now) then\n      local ends" => "if false then\n      local ends"),
    script!("rwlock-readers-not-told", RWLOCK.release, "tell_readers(s.key)" => ""),
    script!("rwlock-writer-not-called", RWLOCK.release,
        "queue_call(s.key, now, member)\n  end" => "end"),
    script!("rwlock-writer-first", RWLOCK.release,
        "reader and (ended and not s.writer or not writes) then" => "reader and not writes then"),
    script!("rwlock-readers-all-come", RWLOCK.read,
        "elseif first and not is_upgradable(first) then" => "elseif false then"),
    script!("rwlock-upgrade-before-readers", RWLOCK.write, slow,
        "elseif waited then\n    local reader"
        => "elseif own == 1 then\n    free = true\n  elseif waited then\n    local reader"),
    script!("rwlock-stale-token", RWLOCK.read,
        "local serial, token, short, abandoned = micros, s.token, '', 0"
        => "local serial, token, short, abandoned = micros, s.released, '', 0"),
    script!("rwlock-release-ends-all", RWLOCK.release, "if held ~= ' ' then" => "if false then"),
    script!("rwlock-count-not-lowered", RWLOCK.release,
        "s.count = s.count - 1\n    end\n    if live then" => "end\n    if live then"),
    script!("rwlock-late-accepted", RWLOCK.write, slow,
        "if string.sub(began, 1, 13) > ARGV[1] or" => "if"),
    script!("rwlock-void-ignored", RWLOCK.read, "return now .. ' void'" => ""),
    script!("rwlock-renewal-shortens", RWLOCK.renew, slow,
        "if ends > string.sub(hold, 1, 13) then" => "if true then"),
    script!("rwlock-downgrade-keeps-writing", RWLOCK.downgrade,
        "and end_write(s, ARGV[6], now) and" => "and false and"),
    script!("rwlock-hold-without-end", RWLOCK.write,
        "redis.call('PEXPIRE', key, ttl)\n  return new" => "return new"),
    script!("rwlock-granted-ahead-keeps-its-place", RWLOCK.release,
        "redis.call('ZREM', queue, head)" => ""),
    script!("rwlock-granted-ahead-with-an-old-token", RWLOCK.release, within("clocks-within"),
        "new = string.format('%.0f', token + 1)" => "new = token"),
    script!("rwlock-granted-ahead-before-readers", RWLOCK.release,
        "return not batch_reader(s, readers, reader, now) and" => "return"),
    client("rwlock-grant-without-nonce-believed", Rule::CheckNonce).within("forged-calls"),
    client("rwlock-abandoned-not-undone", Rule::UndoAbandoned),
    client("rwlock-waiter-not-struck-out", Rule::StrikeOut),
    client("rwlock-no-try-after-subscribing", Rule::TryAfterSubscribing),
    client("rwlock-never-looks-again", Rule::LookAgain),
];

/// Locks held as one.
pub(super) const SEVERAL: &[Mutant] = &[
    script!("multi-takes-what-is-held", REENTRANT.acquire, "local held = owner and until_ms > now"
        => "local held = owner and until_ms > now and i == 1"),
    script!("multi-writes-only-the-first", REENTRANT.acquire,
        "line = line .. take(first + (i - 1) * PARTS, found[i], e)"
        => "line = line .. take(first, found[1], e)"),
    script!("multi-second-without-end", REENTRANT.acquire,
        "call('PEXPIRE', key, life)" => "call('PEXPIRE', KEYS[1], life)"),
    script!("multi-marks-not-read", REENTRANT.acquire, "return now .. ' void'" => ""),
    script!("multi-first-attempt-only", REENTRANT.acquire,
        "held = held .. attempt .. ' '" => "held = at == 1 and held .. attempt .. ' ' or held"),
    client("multi-any-order", Rule::TakeInOrder),
    client("multi-loss-unseen", Rule::WatchTaken),
    client("multi-abandoned-not-undone", Rule::UndoAbandoned),
    client("multi-copies-not-marked", Rule::MarkCopies),
    client("multi-lease-from-reply", Rule::CountFromSend),
    client("multi-drop-releases-nothing", Rule::ReleaseOnDrop),
];

/// A lock over a quorum.
pub(super) const QUORUM: &[Mutant] = &[
    client("red-minority-suffices", Rule::NeedQuorum),
    client("red-lasts-with-a-minority", Rule::LoseWithQuorum),
    client("red-young-counted", Rule::DistrustYoung).under(Fault::Restart),
    client("red-minority-kept", Rule::GiveBackMinority),
    client("red-no-margin", Rule::TakeMargin).under(Fault::Drift),
    client("red-loss-not-told", Rule::TellByClock),
    client("red-drop-releases-nothing", Rule::ReleaseOnDrop),
    client("red-abandoned-not-undone", Rule::UndoAbandoned),
    script!("red-early-grant", REENTRANT.acquire, "if held and owner ~= e.owner or"
        => "if held and until_ms > (now + 100) .. '' and owner ~= e.owner or"),
    script!("red-late-accepted", REENTRANT.acquire,
        "if string.sub(began, 1, 13) > ARGV[1] or" => "if"),
];

/// The election, and the fence of what leaders write.
pub(super) const LEADERS: &[Mutant] = &[
    script!("election-early-grant", ELECTION.exclusive.acquire, "if held and owner ~= e.owner or"
        => "if held and until_ms > (now + 100) .. '' and owner ~= e.owner or"),
    script!("election-token-repeats", ELECTION.exclusive.acquire,
        "local new = micros\n  if token then\n    if new <= token then"
        => "local new = token or micros\n  if token then\n    if false then"),
    script!("election-not-renewed", ELECTION.exclusive.renew,
        "redis.call('HSET', key, 'u', later)" => ""),
    script!("election-fence-open", FENCE.set, "mark[2] + 0 > token + 0" => "false"),
    script!("election-fence-refuses-the-same", FENCE.set,
        "mark[2] + 0 > token + 0" => "mark[2] + 0 >= token + 0"),
    script!("election-fence-mark-stays", FENCE.set, "'t', token)" => "'t', mark[2] or token)"),
    script!("election-fence-copies-write", FENCE.set,
        "elseif call('ZSCORE', ops, op) then" => "elseif false then"),
    client("election-work-is-late", Rule::LookBeforeWork),
    client("election-task-is-late", Rule::LookBeforeTask),
    client("election-tasks-go-on", Rule::EndTasks),
    client("election-grace-is-too-long", Rule::EndGrace),
];
