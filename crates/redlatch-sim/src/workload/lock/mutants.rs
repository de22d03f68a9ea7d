//! The planted faults that runs of the plain lock must find: in its scripts, and in the rules of
//! the client that all kinds share.

use redlatch_core::family::Rule;
use redlatch_lua::{REENTRANT, Source};

use crate::{
    faults::Fault,
    mutants::{Mutant, What, client, mutant, script},
};

const ACQUIRE: &Source = &REENTRANT.acquire;
const ACQUIRE_EACH: &Source = &REENTRANT.acquire_each;
const RELEASE: &Source = &REENTRANT.release;
const RELEASE_EACH: &Source = &REENTRANT.release_each;
const RENEW: &Source = &REENTRANT.renew;
const RENEW_EACH: &Source = &REENTRANT.renew_each;
const FORCE: &Source = &REENTRANT.force;

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "early-grant",
        ACQUIRE,
        "if held and f[2] ~= owner or",
        "if held and f[4] > (now + 100) .. '' and f[2] ~= owner or",
    ),
    script("void-ignored", ACQUIRE, "return {now, 'void'}", ""),
    script(
        "grant-not-recorded",
        ACQUIRE,
        "'u', ends, 'v', spent, 'z', token)",
        "'u', ends, 'z', token)",
    )
    .under(Fault::Doubled),
    script(
        "entry-not-recorded",
        ACQUIRE,
        "'u', later, 'v', f[5])",
        "'u', later)",
    )
    .under(Fault::Doubled),
    script(
        "busy-try-not-recorded",
        ACQUIRE,
        "redis.pcall('HSET', KEYS[i], 'v', spent)",
        "",
    )
    .under(Fault::Doubled),
    script(
        "late-accepted",
        ACQUIRE,
        "if string.sub(began, 1, 13) > ARGV[1] or",
        "if",
    ),
    script(
        "token-repeats",
        ACQUIRE,
        "token = micros
    if last and token <= last then",
        "token = last or micros
    if false then",
    ),
    script(
        "reentry-not-counted",
        ACQUIRE,
        "held = held .. attempt .. ' '",
        "",
    ),
    script(
        "reentry-shortens",
        ACQUIRE,
        "if f[4] > ends or h[2] == token then",
        "if false then",
    ),
    script(
        "waiter-not-registered",
        ACQUIRE,
        "redis.call('ZADD', KEYS[m + i], alive, ARGV[7])",
        "",
    ),
    script(
        "queue-without-end",
        ACQUIRE,
        "redis.call('PEXPIRE', KEYS[m + i], last - now)",
        "",
    ),
    script(
        "hold-without-end",
        ACQUIRE,
        "redis.call('PEXPIRE', key, ttl)",
        "",
    ),
    script(
        "release-frees-all",
        RELEASE,
        "if rest == ' ' and live then",
        "if live then",
    ),
    script(
        "release-wakes-nobody",
        RELEASE,
        "publish(verb, channel, key)",
        "",
    ),
    script(
        "release-leaves-no-mark",
        RELEASE,
        "if void ~= '' and void >= now then",
        "if false then",
    )
    .under(Fault::Doubled),
    script(
        "renewal-shortens",
        RENEW,
        "if f[4] > ends then",
        "if false then",
    ),
    script(
        "force-leaves-no-trace",
        FORCE,
        "'u', '0000000000000', 'f', token)",
        "'u', '0000000000000')",
    )
    .under(Fault::Force),
    script(
        "force-hits-any-hold",
        FORCE,
        "f[4] > now and f[3] == token",
        "f[4] > now",
    )
    .under(Fault::Force),
    script(
        "forced-is-renewed",
        RENEW,
        "elseif f[5] == token then",
        "elseif false then",
    ),
    script(
        "force-wakes-nobody",
        FORCE,
        "publish(verb, channel, key)",
        "",
    )
    .under(Fault::Force),
    script(
        "key-outlives-retention",
        ACQUIRE,
        "call('PEXPIRE', key, life)",
        "call('PEXPIRE', key, life * 100)",
    ),
    script(
        "queue-outlives-waiters",
        ACQUIRE,
        "call('PEXPIRE', KEYS[m + i], last - now)",
        "call('PEXPIRE', KEYS[m + i], (last - now) * 100)",
    ),
    script(
        "common-grant-of-held",
        ACQUIRE_EACH,
        "if owner or waiters",
        "if waiters",
    ),
    script(
        "common-void-ignored",
        ACQUIRE_EACH,
        "if refused then",
        "if false then",
    )
    .under(Fault::Doubled),
    script(
        "common-late-accepted",
        ACQUIRE_EACH,
        "if now > ARGV[1] or",
        "if",
    ),
    script(
        "common-token-repeats",
        ACQUIRE_EACH,
        "if new <= token then",
        "new = token
    if false then",
    ),
    script(
        "common-hold-without-end",
        ACQUIRE_EACH,
        "redis.call('PEXPIRE', key, ttl)",
        "",
    ),
    script(
        "common-release-frees-all",
        RELEASE_EACH,
        "held ~= attempts or",
        "",
    ),
    script(
        "common-release-wakes-nobody",
        RELEASE_EACH,
        "or waiters or",
        "or",
    ),
    script(
        "common-release-ends-later-hold",
        RELEASE_EACH,
        "current ~= token or held ~= attempts or",
        "",
    ),
    script(
        "common-renewal-shortens",
        RENEW_EACH,
        "if f[4] > ends then",
        "if false then",
    ),
    mutant("undelivered-is-renewed", What::Detached),
    mutant("ids-collide", What::IdsCollide),
    client("renewal-ends-with-one-guard", Rule::RenewForEach),
    client("abandoned-not-undone", Rule::UndoAbandoned),
    client("copies-not-marked", Rule::MarkCopies).under(Fault::Doubled),
    client("lease-from-reply", Rule::CountFromSend),
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
    client("waiter-not-struck-out", Rule::StrikeOut),
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
    client("cut-off-not-undone", Rule::UndoCutOff).within("late-replies"),
];
