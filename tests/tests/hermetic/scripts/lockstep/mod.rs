//! Common calls against single calls, in lockstep: two servers with equal clocks and equal data get
//! the same random history. One is asked by the scripts that serve several calls, and by the
//! ordinary script for each call that those leave alone. The other is asked by the ordinary scripts
//! only. A third one has the ordinary scripts without their plain branch.
//!
//! All replies, all fields, all messages and all TTLs agree, except for the following.
//!
//! - The ordinary script takes a call that was left alone after those that were served: the order
//!   of calls that are under way at the same time is free.
//! - Holds that a pool gives out by one call have different numbers, though all have the same time.
//! - A pool keeps expired holds until an ordinary script removes them. Until then a hold that is
//!   over counts as expired, and as gone afterwards.
//! - A read-write lock's field g may name an owner whose upgradable hold is gone.
//! - A read-write lock's keys live for the TTL that a common acquisition asks for, though they may
//!   have had a longer one. After a common release K may live for up to the longest lease that its
//!   holds had, in addition to the retention.
//! - After a release by the plain branch, K lives for up to the retention longer than without it.
//! - A pool's common renewal that comes late has an empty item behind its verdict.
//! - Waiters that one call serves are not notified meanwhile. The other waiters get their tickets
//!   in the same order, but not the same tickets, and are told to look at other times.
//! - Fields and clients of a pool's queue may be left over from waiters that are gone.

mod calls;
mod history;
mod server;

use redlatch_embedded::engine::Model;

use self::{
    calls::Kind,
    history::{Counts, History},
};
use super::driver;

/// Runs all histories of `kind`, and checks that both branches of its common scripts were taken.
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
    for (script, [served, alone]) in &counts.0 {
        assert!(*served > runs, "{script} served {served}");
        assert!(
            *alone > runs || script.ends_with("renew_each"),
            "{script} left {alone} alone"
        );
    }
    assert_eq!(counts.0.len(), 3, "{counts:?}");
}

/// Returns the seeds to run for each server: a part, odd and even, since histories are long.
fn seeds() -> impl Iterator<Item = u64> {
    driver::seeds().step_by(7)
}

/// Runs histories of `kind` with a common script that has `wrong` instead of `right`, until one
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
        (Kind::Lock, "reentrant/release_each"),
        (Kind::Fair, "fair/release_each"),
        (Kind::Write, "rwlock/write_release_each"),
    ] {
        is_found(kind, script, token, "");
    }
    let serial = "string.sub(hold, 15, 30) ~= serial or ";
    is_found(Kind::Read, "rwlock/read_release_each", serial, "");
}

#[test]
fn common_release_that_does_not_look_at_the_attempts_is_found() {
    let attempts = "held ~= attempts or ";
    for (kind, script) in [
        (Kind::Lock, "reentrant/release_each"),
        (Kind::Fair, "fair/release_each"),
        (Kind::Write, "rwlock/write_release_each"),
    ] {
        is_found(kind, script, attempts, "");
    }
    let attempts = " or string.sub(hold, 48) ~= ' r ' .. attempt .. ' '";
    is_found(Kind::Read, "rwlock/read_release_each", attempts, "");
}

#[test]
fn common_release_that_ignores_the_end_of_the_lease_is_found() {
    let lease = " or not until_ms or until_ms <= now";
    for (kind, script) in [
        (Kind::Lock, "reentrant/release_each"),
        (Kind::Fair, "fair/release_each"),
        (Kind::Write, "rwlock/write_release_each"),
    ] {
        is_found(kind, script, lease, " or not until_ms");
    }
    let lease = " or string.sub(hold, 1, 13) <= now";
    is_found(Kind::Read, "rwlock/read_release_each", lease, "");
    is_found(Kind::Hold, "pool/release_each", lease, "");
}

#[test]
fn common_release_that_ignores_waiters_is_found() {
    for (kind, script, right, wrong) in [
        (
            Kind::Lock,
            "reentrant/release_each",
            " or waiters or",
            " or",
        ),
        (Kind::Fair, "fair/release_each", " or waiters or", " or"),
        (
            Kind::Write,
            "rwlock/write_release_each",
            " or waiters or",
            " or",
        ),
        (
            Kind::Read,
            "rwlock/read_release_each",
            "if waiters or",
            "if",
        ),
        (Kind::Hold, "pool/release_each", " and not f[3]", ""),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_ended_attempts_is_found() {
    let (right, wrong) = ("if refused then", "if false then");
    for (kind, script) in [
        (Kind::Lock, "reentrant/acquire_each"),
        (Kind::Fair, "fair/acquire_each"),
        (Kind::Write, "rwlock/write_each"),
        (Kind::Read, "rwlock/read_each"),
    ] {
        is_found(kind, script, right, wrong);
    }
    for kind in [Kind::Hold, Kind::Permit] {
        is_found(
            kind,
            "pool/acquire_each",
            "spent or refused then",
            "spent then",
        );
    }
}

#[test]
fn common_acquisition_that_ignores_waiters_is_found() {
    for (kind, script, right, wrong) in [
        (
            Kind::Lock,
            "reentrant/acquire_each",
            " or waiters or",
            " or",
        ),
        (Kind::Fair, "fair/acquire_each", " or waiters or", " or"),
        (Kind::Write, "rwlock/write_each", " or waiters or", " or"),
        (Kind::Read, "rwlock/read_each", " or waiters or", " or"),
        (Kind::Hold, "pool/acquire_each", " or f[5] or", " or"),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_holders_is_found() {
    for (kind, script, right, wrong) in [
        (
            Kind::Lock,
            "reentrant/acquire_each",
            "if owner or waiters",
            "if waiters",
        ),
        (
            Kind::Write,
            "rwlock/write_each",
            "if owner or waiters",
            "if waiters",
        ),
        (
            Kind::Write,
            "rwlock/write_each",
            "if nobody_reads(f[6])",
            "if true",
        ),
        (Kind::Read, "rwlock/read_each", "if writer or", "if"),
        (
            Kind::Read,
            "rwlock/read_each",
            " or not nobody_reads(counter)",
            "",
        ),
        (
            Kind::Hold,
            "pool/acquire_each",
            " and out + need <= size",
            "",
        ),
        (Kind::Hold, "pool/acquire_each", " and not f[7 + j]", ""),
        (Kind::Hold, "pool/acquire_each", " or f[7])", ")"),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_acquisition_that_ignores_the_kind_is_found() {
    for (kind, script, right, wrong) in [
        (
            Kind::Lock,
            "reentrant/acquire_each",
            " or kind and kind ~= KIND",
            "",
        ),
        (
            Kind::Write,
            "rwlock/write_each",
            " or kind and kind ~= KIND",
            "",
        ),
        (
            Kind::Read,
            "rwlock/read_each",
            " or kind and kind ~= 'rw:1'",
            "",
        ),
        (
            Kind::Hold,
            "pool/acquire_each",
            "f[1] and f[1] ~= kind or ",
            "",
        ),
    ] {
        is_found(kind, script, right, wrong);
    }
}

#[test]
fn common_call_about_a_contended_pool_that_differs_is_found() {
    for (script, right, wrong) in [
        (
            "pool/release_some",
            " or string.sub(hold, 1, 13) <= now",
            "",
        ),
        ("pool/acquire_some", "f[1] ~= kind or ", ""),
        ("pool/acquire_some", "if not refused and not f", "if not f"),
        ("pool/acquire_some", "not f[9 + i] and ", ""),
        (
            "pool/acquire_some",
            "blocked = blocked or not view.whole",
            "blocked = false",
        ),
        (
            "pool/acquire_some",
            "if view.dead or view.more",
            "if view.more",
        ),
        ("pool/acquire_some", "or first and first <= now", ""),
        ("pool/acquire_some", "alive - now < ttl - FRESH", "false"),
        ("pool/acquire_some", "has == tickets[j] and 1 or 0", "1"),
    ] {
        is_found(Kind::Crowd, script, right, wrong);
    }
}
