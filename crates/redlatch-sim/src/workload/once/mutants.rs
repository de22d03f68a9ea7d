//! The planted faults that runs of jobs must find.

use redlatch_core::family::Rule;
use redlatch_lua::{ONCE, Source};

use crate::{
    faults::Fault,
    mutants::{Mutant, client, script},
};

const CLAIM: &Source = &ONCE.claim;
const RENEW: &Source = &ONCE.renew;
const RELEASE: &Source = &ONCE.release;
const LOOK: &Source = &ONCE.look;

/// All planted faults. Those that let late copies of a claim act are not among them: a copy has to
/// find the job as its caller saw it as well, which seeds do not bring about. The scripts' test
/// against a model finds them, `late_copies_that_act_are_noticed`.
pub(super) const ALL: &[Mutant] = &[
    script(
        "once-success-forgotten",
        RELEASE,
        "call('HSET', key, 'w', record)",
        "",
    ),
    script(
        "once-keyed-success-forgotten",
        RELEASE,
        "keyed_put(key, slot, record, (now + ARGV[9]) .. '')",
        "keyed_put(key, slot, record, (now + 1) .. '')",
    ),
    script(
        "once-seen-ignored",
        CLAIM,
        "if ARGV[7] ~= (last or '') .. ' ' .. (holder and '1' or '0') or from",
        "if from",
    ),
    script(
        "once-attempt-not-counted",
        CLAIM,
        "with_attempts(g[2], slot, attempts)",
        "with_attempts(g[2], slot, attempts - 1)",
    ),
    script(
        "once-keyed-attempt-not-counted",
        CLAIM,
        "'run ' .. attempts .. ' '",
        "'run ' .. attempts - 1 .. ' '",
    ),
    script(
        "once-failure-counts-as-undone",
        RELEASE,
        "if outcome == '' then",
        "if outcome ~= 'done' then",
    ),
    script(
        "once-undone-counts-as-run",
        RELEASE,
        "if outcome == '' then",
        "if false then",
    ),
    script(
        "once-token-repeats",
        CLAIM,
        "if last and token <= last then",
        "token = last or token\nif false then",
    ),
    script(
        "once-renews-nothing",
        RENEW,
        "call('HSET', key, 'u', ends)",
        "",
    ),
    script(
        "once-anybody-releases",
        RELEASE,
        "if holder and holder == ARGV[1] and claimed == attempt then",
        "if holder then",
    ),
    script(
        "once-claim-outlives-its-release",
        RELEASE,
        "call('HDEL', key, 'o', 'h', 'u', 's', 'c', 'b', 'i')",
        "",
    ),
    script(
        "once-key-without-end",
        CLAIM,
        "live(key, ttl)\nreturn",
        "return",
    ),
    script(
        "once-look-hides-successes",
        LOOK,
        "'e', 'w', 'p'",
        "'e', 'W', 'p'",
    ),
    client("once-abandoned-not-undone", Rule::UndoAbandoned),
    client("once-lease-from-reply", Rule::CountFromSend),
    client("once-resend-new-id", Rule::ResendSameId),
    client("once-release-not-retried", Rule::RetryReleases).under(Fault::Refusal),
    client("once-drop-releases-nothing", Rule::ReleaseOnDrop),
    client("once-never-renewed", Rule::Renew),
];
