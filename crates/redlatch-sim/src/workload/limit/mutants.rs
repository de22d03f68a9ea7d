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
        "if not refused then\n    return nil, d",
        "if true then\n    return nil, d",
    ),
    script(
        "limit-copy-is-void",
        ACQUIRE,
        "return nil, d, spent, (passes or 0) + 0,",
        "return nil, d, spent, 0,",
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
        "due(debt, part, burst - cost, count, period), ''",
        "due(debt, part, burst + 1 - cost, count, period), ''",
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
        "since > clock and min(since - clock, debt) or 0",
        "0",
    ),
    script(
        "limit-wait-is-free",
        ACQUIRE,
        "passes, at = 1, format('%.0f', clock + wait)",
        "passes, at, cost = 1, format('%.0f', clock + wait), 0",
    ),
    script(
        "limit-copy-of-a-wait-counts-at-once",
        ACQUIRE,
        "wait = ahead and",
        "wait = false and",
    ),
    script(
        "limit-paid-given-back",
        SETTLE,
        "min(span(-tokens, count, period), mark - shift - clock, debt)",
        "min(span(-tokens, count, period), debt)",
    ),
    script(
        "limit-given-back-under-a-later-pass",
        SETTLE,
        "(turn == '0' or tokens == -cost and mark + 0 == clock + debt + shift)",
        "true",
    ),
    script(
        "limit-settled-twice",
        SETTLE,
        "if not refused then\n    return nil, d",
        "if true then\n    return nil, d",
    ),
    client("limit-resend-new-id", Rule::ResendSameId),
    client("limit-by-unlimited", Rule::LimitBy),
    client("limit-turn-not-passed", Rule::PassTurn),
    client("limit-pass-used-early", Rule::WaitUntilItCounts),
];
