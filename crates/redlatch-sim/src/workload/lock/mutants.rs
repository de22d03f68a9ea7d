//! The planted faults that runs of the plain lock must find: in its scripts, and in the rules of
//! the client that all kinds share.

use redlatch_core::family::Rule;
use redlatch_lua::{REENTRANT, Source};

use crate::{
    faults::Fault,
    mutants::{Mutant, What, client, mutant, script},
};

const ACQUIRE: &Source = &REENTRANT.acquire;
const RELEASE: &Source = &REENTRANT.release;
const RENEW: &Source = &REENTRANT.renew;
const FORCE: &Source = &REENTRANT.force;

/// The world in which replicas confirm grants and renewals.
const DURABLE: &str = "two-masters-durable";

/// All planted faults.
pub(super) const ALL: &[Mutant] = &[
    script(
        "early-grant",
        ACQUIRE,
        "if held and owner ~= e.owner or",
        "if held and until_ms > (now + 100) .. '' and owner ~= e.owner or",
    ),
    script("void-ignored", ACQUIRE, "return now .. ' void'", ""),
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
        "'u', later, 'v', has.spent)",
        "'u', later)",
    )
    .under(Fault::Doubled),
    script(
        "busy-try-not-recorded",
        ACQUIRE,
        "redis.pcall('HSET', key, 'v', spent)",
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
        "if has.ends > ends or h[2] == token then",
        "if false then",
    ),
    script(
        "waiter-not-registered",
        ACQUIRE,
        "redis.call('ZADD', KEYS[at + 1], alive, e.address)",
        "",
    ),
    script(
        "queue-without-end",
        ACQUIRE,
        "redis.call('PEXPIRE', KEYS[at + 1], last - now)",
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
        "if attempts == ' ' and live then",
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
        "if until_ms > ends then",
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
        "ends > now and current == token",
        "ends > now",
    )
    .under(Fault::Force),
    script(
        "forced-is-renewed",
        RENEW,
        "elseif forced == token then",
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
        "call('PEXPIRE', KEYS[at + 1], last - now)",
        "call('PEXPIRE', KEYS[at + 1], (last - now) * 100)",
    ),
    script(
        "plain-grant-of-held",
        ACQUIRE,
        "if owner or waiters",
        "if waiters",
    ),
    script(
        "plain-void-ignored",
        ACQUIRE,
        "if refused then
    return nil",
        "if false then
    return nil",
    )
    .under(Fault::Doubled),
    script(
        "plain-token-repeats",
        ACQUIRE,
        "if new <= token then",
        "new = token
    if false then",
    ),
    script(
        "plain-release-frees-all",
        RELEASE,
        "held ~= attempts or",
        "",
    ),
    script("plain-release-wakes-nobody", RELEASE, "or waiters or", "or"),
    script(
        "plain-release-ends-later-hold",
        RELEASE,
        "current ~= token or held ~= attempts or",
        "",
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
    client("shortfall-ignored", Rule::RefuseShortfall).within(DURABLE),
    client("unknown-confirmations-count", Rule::KnowConfirmations)
        .under(Fault::Torn)
        .within(DURABLE),
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
