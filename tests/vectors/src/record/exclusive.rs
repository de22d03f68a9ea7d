//! The scripts of locks with one owner, for each kind.

use crate::Bed;

/// A kind with one owner at a time.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) folder: &'static str,
    pub(super) queued: bool,
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        folder: "reentrant",
        queued: false,
    },
    Kind {
        folder: "fair",
        queued: true,
    },
    Kind {
        folder: "election",
        queued: false,
    },
    Kind {
        folder: "fair_election",
        queued: true,
    },
];

pub(super) const SCENES: &[fn(&mut Bed, &Kind)] = &[
    holds,
    endings,
    undone,
    forced,
    several,
    merged,
    refusals,
    withdrawals,
];

impl Kind {
    pub(super) fn script(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }

    /// The keys of one name.
    pub(super) fn keys(&self, name: &str) -> String {
        if self.queued {
            format!("{name} {name}:q {name}:l")
        } else {
            format!("{name} {name}:q")
        }
    }

    fn keys_of_both(&self) -> &'static str {
        if self.queued {
            "n m n:q m:q n:l m:l"
        } else {
            "n m n:q m:q"
        }
    }

    /// The address of attempt `n` of `client`, whose owner is `owner`.
    pub(super) fn address(&self, client: &str, n: u32, owner: u32) -> String {
        if self.queued {
            format!("@{client}:{n}:{owner}")
        } else {
            format!("@{client}:{n}")
        }
    }

    /// Asks for the name `n`, and registers if it is busy.
    pub(super) fn wait(&self, bed: &mut Bed, name: &str, client: &str, n: u32) -> Vec<String> {
        let address = self.address(client, n, n - 1);
        let args = format!(
            "by {client}:{} {client}:{n} 30000 630000 5000 {address}",
            n - 1
        );
        bed.call(name, &self.script("acquire"), &self.keys("n"), &args)
    }

    /// Takes `name` without recording it. Returns the token.
    pub(super) fn take(&self, bed: &mut Bed, name: &str, client: &str, n: u32) -> String {
        let args = format!("by {client}:{} {client}:{n} 30000 630000 - -", n - 1);
        let reply = bed.run(&self.script("acquire"), &self.keys(name), &args);
        assert_eq!(reply[1], "granted", "{reply:?}");
        reply[3].clone()
    }
}

/// Granted, re-entered, busy, released, handed on, renewed.
fn holds(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, renew) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.script("renew"),
    );
    let (inspect, keys) = (kind.script("inspect"), kind.keys("n"));
    bed.call("free", &inspect, &keys, "");
    let granted = kind.wait(bed, "a free name is granted", "a1", 2);
    let token = granted[3].clone();
    bed.pass(20);
    kind.wait(bed, "a copy of a granted request counts once", "a1", 2);
    let again = "by a1:1 a1:3 30000 630000 - -";
    bed.call(
        "the owner enters again with another attempt",
        &acquire,
        &keys,
        again,
    );
    bed.pass(1000);
    let renewal = format!("by a1:1 30000 630000 {token}");
    bed.call("renewed", &renew, "n", &renewal);
    let shorter = format!("by a1:1 5000 605000 {token}");
    bed.call(
        "renewed with a shorter lease, which shortens nothing",
        &renew,
        "n",
        &shorter,
    );
    let try_lock = "by b2:1 b2:2 30000 630000 - -";
    bed.call("busy, without registering", &acquire, &keys, try_lock);
    kind.wait(bed, "busy, and registers", "b2", 4);
    bed.pass(1500);
    kind.wait(bed, "busy, a re-check moves the registration", "b2", 4);
    kind.wait(bed, "busy, another client registers", "c3", 2);
    bed.call("held", &inspect, &keys, "");
    let one = format!("a1:1 a1:3 - 600000 - {token}");
    bed.call("one of two attempts is released", &release, &keys, &one);
    let last = format!("a1:1 a1:2 - 600000 - {token}");
    bed.call(
        "the last attempt is released, and a waiter is notified",
        &release,
        &keys,
        &last,
    );
    bed.call("a copy of that release", &release, &keys, &last);
    bed.pass(1);
    let granted = kind.wait(bed, "the notified waiter is granted", "b2", 4);
    let old = format!("by a1:1 30000 630000 {token}");
    bed.call("taken", &renew, "n", &old);
    bed.call(
        "a copy of the release after the next grant",
        &release,
        &keys,
        &last,
    );
    let release_b2 = format!(
        "b2:3 b2:4 - 600000 {} {}",
        kind.address("b2", 4, 3),
        granted[3]
    );
    bed.call(
        "released, with its own address",
        &release,
        &keys,
        &release_b2,
    );
    kind.wait(bed, "the last waiter is granted", "c3", 2);
}

/// Leases that end, and holds that are unknown.
fn endings(bed: &mut Bed, kind: &Kind) {
    let (release, renew, keys) = (kind.script("release"), kind.script("renew"), kind.keys("n"));
    let token = kind.take(bed, "n", "a1", 2);
    bed.pass(30_000);
    let renewal = format!("by a1:1 30000 630000 {token}");
    bed.call("expired, at the end to the ms", &renew, "n", &renewal);
    let held = format!("a1:1 a1:2 - 600000 - {token}");
    bed.call("expired", &release, &keys, &held);
    bed.call("expired, a copy of that release", &release, &keys, &held);
    kind.take(bed, "n", "b2", 2);
    bed.pass(30_001);
    kind.wait(bed, "after a holder that died, abandoned is 1", "c3", 2);
    bed.call("taken", &release, &keys, &held);
    bed.clear();
    bed.call("gone", &release, &keys, &held);
    bed.call("gone", &renew, "n", &renewal);
    kind.take(bed, "n", "b2", 2);
    let other = "by a1:1 30000 630000 1700000000000000";
    bed.call("taken, an unknown token that is lower", &renew, "n", other);
}

/// Undone attempts and their late copies.
fn undone(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, keys) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.keys("n"),
    );
    let undo = "a1:1 a1:2 by 600000 - -";
    bed.call(
        "an undo ends an attempt that never ran",
        &release,
        &keys,
        undo,
    );
    kind.wait(bed, "void", "a1", 2);
    let fresh = "by a1:1 a1:3 30000 630000 - -";
    bed.call("granted, a later attempt", &acquire, &keys, fresh);
    let undo = "a1:1 a1:3 by 600000 - -";
    bed.call(
        "an undo ends the hold and its attempt",
        &release,
        &keys,
        undo,
    );
    bed.pass(6000);
    let fresh = "by a1:1 a1:4 30000 630000 - -";
    bed.call(
        "granted, and removes marks that are over",
        &acquire,
        &keys,
        fresh,
    );
    kind.wait(bed, "busy, before a leave", "b2", 2);
    let address = kind.address("b2", 2, 1);
    let leave = format!("b2:1 b2:2 by 600000 {address} -");
    bed.call(
        "a waiter leaves: its place is removed, its attempt marked",
        &release,
        &keys,
        &leave,
    );
    let late = "past a1:5 a1:6 30000 630000 - -";
    bed.call("late", &acquire, &keys, late);
    bed.call(
        "late",
        &kind.script("renew"),
        "n",
        "past a1:1 30000 630000 1700000000000000",
    );
}

/// Holds that are ended by force.
fn forced(bed: &mut Bed, kind: &Kind) {
    let (force, renew, release) = (
        kind.script("force"),
        kind.script("renew"),
        kind.script("release"),
    );
    let keys = kind.keys("n");
    bed.call(
        "gone, nobody holds",
        &force,
        &keys,
        "1700000000000000 now 600000",
    );
    let token = kind.take(bed, "n", "a1", 2);
    let after = format!("{token} after 600000");
    bed.call("the renewal is forbidden", &force, &keys, &after);
    bed.call("the renewal is forbidden again", &force, &keys, &after);
    bed.pass(1000);
    let renewal = format!("by a1:1 30000 630000 {token}");
    bed.call("revoked", &renew, "n", &renewal);
    let again = "by a1:1 a1:3 30000 630000 - -";
    let name = "the owner enters again, and learns how long the hold lasts";
    bed.call(name, &kind.script("acquire"), &keys, again);
    kind.wait(bed, "busy, before a forced end", "b2", 2);
    let now = format!("{token} now 600000");
    bed.call(
        "ended at once, and a waiter is notified",
        &force,
        &keys,
        &now,
    );
    bed.call("already, ended before", &force, &keys, &now);
    let held = format!("a1:1 a1:2 - 600000 - {token}");
    bed.call("revoked", &release, &keys, &held);
    kind.wait(bed, "granted after a forced end", "b2", 2);
    bed.call(
        "gone, a later hold",
        &force,
        &keys,
        "1700000000000000 now 600000",
    );
}

/// Several names by one call.
fn several(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, renew) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.script("renew"),
    );
    let keys = kind.keys_of_both();
    let both = "by a1:1 a1:2 30000 630000 - -";
    let granted = bed.call("two names are granted together", &acquire, keys, both);
    let (first, second) = (granted[3].clone(), granted[7].clone());
    let other = "by b2:1 b2:2 30000 630000 - -";
    bed.call("one of two names is busy", &acquire, keys, other);
    bed.pass(10);
    let renewal = format!("by a1:1 30000 630000 {first} {second}");
    bed.call("two holds are renewed", &renew, "n m", &renewal);
    let held = format!("a1:1 a1:2 - 600000 - {first} {second}");
    bed.call("two holds are released", &release, keys, &held);
    bed.put("HSET %m k other:1");
    bed.call("one of two names is of another kind", &acquire, keys, both);
}

/// Calls of several callers in one script.
fn merged(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, renew) = (
        kind.script("acquire_each"),
        kind.script("release_each"),
        kind.script("renew_each"),
    );
    let both = "by a1 30000 630000 :1 :2 :3 :4";
    let reply = bed.call("two free names", &acquire, "n m", both);
    let token = reply[3].clone();
    let name = "one free name, and one that is held and left as it is";
    bed.call(name, &acquire, "o m", "by a1 30000 630000 :5 :6 :7 :8");
    bed.call("late", &acquire, "o m", "past a1 30000 630000 :5 :6 :7 :8");
    bed.pass(1000);
    let renewal = format!("by a1 30000 630000 :1 {token} :3 {token}");
    bed.call("two holds are renewed", &renew, "n m", &renewal);
    let late = format!("past a1 30000 630000 :1 {token} :3 {token}");
    bed.call("late", &renew, "n m", &late);
    let release_both = format!("a1 600000 :2 {token} :9 {token}");
    let name = "one hold, and one of another attempt that is left as it is";
    bed.call(name, &release, "n m", &release_both);
    kind.take(bed, "n", "b2", 2);
    bed.put("HSET %p k other:1");
    bed.run(
        &kind.script("force"),
        &kind.keys("m"),
        &format!("{token} after 600000"),
    );
    let bad = format!("by a1 30000 630000 :1 {token} :3 {token} :5 {token} :7 {token}");
    bed.call(
        "taken, revoked, gone, another kind",
        &renew,
        "n m q p",
        &bad,
    );
    bed.pass(29_000);
    let over = "by a1 30000 630000 :5 1700000000123456";
    bed.call("expired", &renew, "o", over);
}

/// Other kinds, and a clock that scripts cannot compare.
fn refusals(bed: &mut Bed, kind: &Kind) {
    bed.put("HSET %n k other:1");
    let keys = kind.keys("n");
    kind.wait(bed, "another kind", "a1", 2);
    bed.call(
        "another kind",
        &kind.script("renew"),
        "n",
        "by a1:1 30000 630000 1700000000000000",
    );
    let held = "a1:1 a1:2 - 600000 - 1700000000000000";
    bed.call("another kind", &kind.script("release"), &keys, held);
    bed.call("another kind", &kind.script("inspect"), &keys, "");
    bed.call(
        "another kind",
        &kind.script("force"),
        &keys,
        "1700000000000000 now 600000",
    );
    bed.call(
        "another kind",
        &kind.script("withdraw"),
        &keys,
        "list redlatch:w:a1",
    );
    bed.clear();
    bed.set_micros(999_999_999_999_999);
    let args = "by a1:1 a1:2 30000 630000 - -";
    bed.call("a clock before 2001", &kind.script("acquire"), &keys, args);
    let args = "by a1 30000 630000 :1 :2";
    bed.call(
        "a clock before 2001",
        &kind.script("acquire_each"),
        "n",
        args,
    );
}

/// Entries of waiters that their client does not know.
fn withdrawals(bed: &mut Bed, kind: &Kind) {
    let (withdraw, keys) = (kind.script("withdraw"), kind.keys("n"));
    let token = kind.take(bed, "n", "a1", 2);
    for n in [2, 4] {
        let args = format!(
            "by b2:{} b2:{n} 30000 630000 5000 {}",
            n - 1,
            kind.address("b2", n, n - 1)
        );
        bed.run(&kind.script("acquire"), &keys, &args);
    }
    bed.call(
        "the entries of a client",
        &withdraw,
        &keys,
        "list redlatch:w:b2",
    );
    bed.call(
        "the entries of a client without any",
        &withdraw,
        &keys,
        "list redlatch:w:b",
    );
    bed.call(
        "one entry is removed",
        &withdraw,
        &keys,
        "strike redlatch:w:b2 2",
    );
    let args = format!(
        "by c3:1 c3:2 30000 630000 5000 {}",
        kind.address("c3", 2, 1)
    );
    bed.run(&kind.script("acquire"), &keys, &args);
    bed.run(
        &kind.script("release"),
        &keys,
        &format!("a1:1 a1:2 - 600000 - {token}"),
    );
    let name = "the notified entry is removed, and the next waiter is notified";
    bed.call(name, &withdraw, &keys, "strike redlatch:w:b2 4");
}
