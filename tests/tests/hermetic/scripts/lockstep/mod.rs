//! The law of lists: a list answers and leaves what its entries one by one would. Two servers with
//! equal clocks and equal data get the same random history. The first gets lists, the second a call
//! for each entry. A third one has the scripts without their plain branch.
//!
//! All replies, all fields, all messages and all TTLs agree, except for the following.
//!
//! - The entries of a pool count as if those in the queue had asked first, in its order, and those
//!   who ask for the second time last. Their grants have different numbers, though all have the
//!   same time. Those who wait are told when to look again by the state after all of them.
//! - An expired hold of a pool may stay where entries that ask by themselves would have removed it,
//!   or be gone where they would have left it. A hold that is over counts as expired, and as gone
//!   afterwards.
//! - A read-write lock's field g may name an owner whose upgradable hold is gone.
//! - A read-write lock's keys live for the TTL that a common acquisition asks for, though they may
//!   have had a longer one. After a common release K may live for up to the longest lease that its
//!   holds had, in addition to the retention.
//! - After a release by the plain branch, K lives for up to the retention longer than without it.
//! - Waiters of a pool that one call serves are not notified meanwhile. The other waiters get their
//!   tickets in the same order, but not the same tickets.
//! - Fields and clients of a pool's queue may be left over from waiters that are gone. Those that
//!   need more than the size may be removed by a later call. A client that waits may be recorded by
//!   single calls where a common one has an earlier record, which is fresh enough.

mod calls;
mod history;
mod server;

use redlatch_embedded::engine::Model;

use self::{
    calls::Kind,
    history::{Counts, History},
};
use super::driver;

/// Runs all histories of `kind`, and checks that each of its scripts served lists.
#[track_caller]
fn agree(kind: Kind) {
    let mut counts = Counts::default();
    let mut runs = 0;
    for model in Model::ALL {
        let mut history = History::new(model, kind, &[]);
        for seed in seeds() {
            if let Err(difference) = history.run(seed) {
                panic!("{kind:?}, {model:?}, seed {seed}: {difference}");
            }
            runs += 1;
        }
        counts.add(&history.counts);
    }
    println!("{kind:?}: {runs} histories, {counts:?}");
    for (script, served) in &counts.0 {
        assert!(*served > runs, "{script} served {served}");
    }
    assert_eq!(counts.0.len(), 3, "{counts:?}");
}

/// Returns the seeds to run for each server: a part, odd and even, since histories are long.
fn seeds() -> impl Iterator<Item = u64> {
    driver::seeds().step_by(7)
}

/// Runs histories of `kind` with a script that has `wrong` instead of `right`, until one
/// shows a difference.
#[track_caller]
fn is_found(kind: Kind, script: &'static str, right: &str, wrong: &str) {
    let text = redlatch_lua::all()
        .find(|source| source.name == script)
        .map(|source| source.text)
        .unwrap();
    assert!(text.contains(right), "{script} has no {right}");
    let planted = (script, text.replace(right, wrong));
    let mut history = History::new(Model::ALL[0], kind, &[planted]);
    let found = (0..100).any(|seed| history.run(seed).is_err());
    assert!(found, "{script} with {wrong} for {right}");
}

macro_rules! kinds {
    ($($name:ident: $kind:ident;)+) => {$(
        #[test]
        fn $name() {
            agree(Kind::$kind);
        }
    )+};
}

kinds! {
    common_calls_of_plain_locks_agree_with_single_ones: Lock;
    common_calls_of_fair_locks_agree_with_single_ones: Fair;
    common_calls_of_readers_agree_with_single_ones: Read;
    common_calls_of_writers_agree_with_single_ones: Write;
    common_calls_of_holds_of_permits_agree_with_single_ones: Hold;
    common_calls_of_single_permits_agree_with_single_ones: Permit;
    common_calls_about_a_contended_pool_agree_with_single_ones: Crowd;
}

#[test]
fn common_release_that_does_not_compare_the_token_is_found() {
    let token = "current ~= token or ";
    for (kind, script) in [
        (Kind::Lock, "reentrant/release"),
        (Kind::Fair, "fair/release"),
        (Kind::Write, "rwlock/release"),
    ] {
        is_found(kind, script, token, "");
    }
    let serial = "string.sub(hold, 15, 30) ~= serial or ";
    is_found(Kind::Read, "rwlock/release", serial, "");
}

#[test]
fn common_release_that_does_not_look_at_the_attempts_is_found() {
    let attempts = "held ~= attempts or ";
    for (kind, script) in [
        (Kind::Lock, "reentrant/release"),
        (Kind::Fair, "fair/release"),
        (Kind::Write, "rwlock/release"),
    ] {
        is_found(kind, script, attempts, "");
    }
    let attempts = " or string.sub(hold, 48) ~= ' r ' .. attempt .. ' '";
    is_found(Kind::Read, "rwlock/release", attempts, "");
}

#[test]
fn common_release_that_ignores_the_end_of_the_lease_is_found() {
    let lease = " or not until_ms or until_ms <= now";
    for (kind, script) in [
        (Kind::Lock, "reentrant/release"),
        (Kind::Fair, "fair/release"),
        (Kind::Write, "rwlock/release"),
    ] {
        is_found(kind, script, lease, " or not until_ms");
    }
    let lease = " or string.sub(hold, 1, 13) <= now";
    is_found(Kind::Read, "rwlock/release", lease, "");
    let lease = " and string.sub(hold, 1, 13) > now and string.match(hold";
    is_found(Kind::Hold, "pool/release", lease, " and string.match(hold");
}

#[test]
fn common_release_that_ignores_waiters_is_found() {
    for (kind, script, right, wrong) in [
        (Kind::Lock, "reentrant/release", " or waiters or", " or"),
        (Kind::Fair, "fair/release", " or waiters or", " or"),
        (Kind::Write, "rwlock/release", " or waiters or", " or"),
        (
            Kind::Read,
            "rwlock/release",
            "if f.err or may_wait(f[1], now) or",
            "if f.err or",
        ),
        (Kind::Hold, "pool/release", " and not f[4] and", " and"),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_ended_attempts_is_found() {
    let (right, wrong) = ("if refused then", "if false then");
    for (kind, script) in [
        (Kind::Lock, "reentrant/acquire"),
        (Kind::Fair, "fair/acquire"),
        (Kind::Write, "rwlock/write"),
        (Kind::Read, "rwlock/read"),
    ] {
        is_found(kind, script, right, wrong);
    }
    for kind in [Kind::Hold, Kind::Permit] {
        let (right, wrong) = ("local plain = spent and not refused", "local plain = spent");
        is_found(kind, "pool/acquire", right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_waiters_is_found() {
    for (kind, script, right, wrong) in [
        (Kind::Lock, "reentrant/acquire", " or waiters or", " or"),
        (Kind::Fair, "fair/acquire", " or waiters or", " or"),
        (Kind::Write, "rwlock/write", " or waiters or", " or"),
        (
            Kind::Read,
            "rwlock/read",
            " or may_wait(f[5], now) or",
            " or",
        ),
        (Kind::Hold, "pool/acquire", " and not f[5] and", " and"),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_holders_is_found() {
    for (kind, script, right, wrong) in [
        (
            Kind::Lock,
            "reentrant/acquire",
            "if owner or waiters",
            "if waiters",
        ),
        (
            Kind::Write,
            "rwlock/write",
            "if owner or waiters",
            "if waiters",
        ),
        (Kind::Write, "rwlock/write", " and nobody_reads(f[6])", ""),
        (
            Kind::Read,
            "rwlock/read",
            "if f.err or f[2] or",
            "if f.err or",
        ),
        (
            Kind::Read,
            "rwlock/read",
            " or not nobody_reads(counter)",
            "",
        ),
        (
            Kind::Hold,
            "pool/acquire",
            " and out + pool.need <= size",
            "",
        ),
        (Kind::Hold, "pool/acquire", "refused = refused or f[j]", ""),
        (Kind::Hold, "pool/acquire", " and not f[8] and", " and"),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_the_kind_is_found() {
    for (kind, script, right, wrong) in [
        (
            Kind::Lock,
            "reentrant/acquire",
            " or kind and kind ~= KIND",
            "",
        ),
        (Kind::Write, "rwlock/write", " or kind and kind ~= KIND", ""),
        (Kind::Read, "rwlock/read", " or f[1] and f[1] ~= 'rw:1'", ""),
        (Kind::Hold, "pool/acquire", "f[1] == kind and f[2]", "f[2]"),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn list_that_takes_something_from_a_full_server_is_found() {
    for (kind, script) in [(Kind::Write, "rwlock/write"), (Kind::Read, "rwlock/read")] {
        let noop = "redis.pcall('ZADD', clients, 'XX', 0, '')";
        is_found(kind, script, noop, "nil");
    }
}

#[test]
fn list_that_mixes_up_the_entries_of_one_lock_is_found() {
    for (kind, script) in [
        (Kind::Read, "rwlock/read"),
        (Kind::Write, "rwlock/release"),
        (Kind::Read, "rwlock/release"),
    ] {
        is_found(kind, script, "off[key] = true", "");
    }
}

#[test]
fn common_call_about_a_contended_pool_that_differs_is_found() {
    for (script, right, wrong) in [
        (
            "pool/release",
            "        if ends <= now then",
            "        if false then",
        ),
        ("pool/acquire", "f[1] ~= kind then", "false then"),
        (
            "pool/acquire",
            "e.n <= top and not placed(e) then",
            "false then",
        ),
        ("pool/acquire", "most > top and e.n <= most", "false"),
        (
            "pool/acquire",
            "e.n <= top and not placed(e) then",
            "e.n <= top then",
        ),
        ("pool/acquire", "            holds = true\n", ""),
        (
            "pool/acquire",
            "      blocked = true\n      break\n",
            "      break\n",
        ),
        (
            "pool/acquire",
            "    if view.dead then\n",
            "    if false then\n",
        ),
        (
            "pool/acquire",
            "if first and first <= now then",
            "if false then",
        ),
        ("pool/acquire", "alive - now < ttl - FRESH", "false"),
        (
            "pool/acquire",
            "e.entered = has and 0 or 1",
            "e.entered = 1",
        ),
        ("pool/acquire", "            room = nil\n", ""),
        ("pool/acquire", "if seen[e.attempt] or", "if"),
        (
            "pool/acquire",
            "if e.waiter ~= '' and not view and",
            "if false and",
        ),
    ] {
        is_found(Kind::Crowd, script, right, wrong);
    }
}
