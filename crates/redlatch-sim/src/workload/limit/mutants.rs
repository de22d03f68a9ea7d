//! The planted faults that runs of the rate limiter must find.

use redlatch_core::family::Rule;
use redlatch_lua::{LIMIT, Source};

use crate::mutants::{Mutant, client, script};

const ACQUIRE: &Source = &LIMIT.acquire;
const SETTLE: &Source = &LIMIT.settle;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "limit-copy-passes-again",
        ACQUIRE,
        "if not refused then\n    return {d = d",
        "if true then\n    return {d = d",
    ),
    script(
        "limit-copy-is-void",
        ACQUIRE,
        "return {copy = (passes or 0) + 0,",
        "return {copy = 0,",
    ),
    script(
        "limit-refusal-forgotten",
        ACQUIRE,
        "redis.pcall('HSET', key, 'k', 'limit:1', 'd', d, 'v', spent)",
        "",
    ),
    script(
        "limit-late-accepted",
        ACQUIRE,
        "if string.sub(began, 1, 13) > ARGV[1] or",
        "if",
    ),
    script(
        "limit-one-too-many",
        ACQUIRE,
        "span(burst - tokens, count, period)",
        "span(burst + 1 - tokens, count, period)",
    ),
    script(
        "limit-fractions-lost",
        ACQUIRE,
        "return debt + 1, part - count",
        "return debt, part - count",
    ),
    script(
        "limit-slower-rate-forgives",
        ACQUIRE,
        "if count and (count ~= old_count or period ~= old_period) then",
        "if false then",
    ),
    script(
        "limit-faster-rate-goes-first",
        ACQUIRE,
        "turn > micros and math.min(turn - micros, debt) or 0",
        "0",
    ),
    script(
        "limit-wait-is-free",
        ACQUIRE,
        "passes, at = 1, string.format('%.0f', micros + wait)",
        "passes, at, cost = 1, string.format('%.0f', micros + wait), 0",
    ),
    script(
        "limit-copy-of-a-wait-counts-at-once",
        ACQUIRE,
        "wait = has.ahead and",
        "wait = false and",
    ),
    script(
        "limit-paid-given-back",
        SETTLE,
        "math.min(span(-tokens, count, period), mark - shift - micros, debt)",
        "math.min(span(-tokens, count, period), debt)",
    ),
    script(
        "limit-given-back-under-a-later-pass",
        SETTLE,
        "(turn == '0' or tokens == -cost and mark + 0 == micros + debt + shift)",
        "true",
    ),
    script(
        "limit-settled-twice",
        SETTLE,
        "if not refused then\n    return {d = d",
        "if true then\n    return {d = d",
    ),
    client("limit-resend-new-id", Rule::ResendSameId),
    client("limit-by-unlimited", Rule::LimitBy),
    client("limit-turn-not-passed", Rule::PassTurn),
    client("limit-pass-used-early", Rule::WaitUntilItCounts),
];
