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
            "n n:q n:l m m:q m:l"
        } else {
            "n n:q m m:q"
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
        let args = format!("by {client} 30000 630000 - :{} :{n} 5000 {address}", n - 1);
        bed.call(name, &self.script("acquire"), &self.keys("n"), &args)
    }

    /// Takes `name` without recording it. Returns the token.
    pub(super) fn take(&self, bed: &mut Bed, name: &str, client: &str, n: u32) -> String {
        let args = format!("by {client} 30000 630000 - :{} :{n} - -", n - 1);
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
    let again = "by a1 30000 630000 - :1 :3 - -";
    bed.call(
        "the owner enters again with another attempt",
        &acquire,
        &keys,
        again,
    );
    bed.pass(1000);
    let renewal = format!("by a1 30000 630000 :1 {token}");
    bed.call("renewed", &renew, "n", &renewal);
    let shorter = format!("by a1 5000 605000 :1 {token}");
    bed.call(
        "renewed with a shorter lease, which shortens nothing",
        &renew,
        "n",
        &shorter,
    );
    let try_lock = "by b2 30000 630000 - :1 :2 - -";
    bed.call("busy, without registering", &acquire, &keys, try_lock);
    kind.wait(bed, "busy, and registers", "b2", 4);
    bed.pass(1500);
    kind.wait(bed, "busy, a re-check moves the registration", "b2", 4);
    kind.wait(bed, "busy, another client registers", "c3", 2);
    bed.call("held", &inspect, &keys, "");
    let one = format!("a1 600000 :1 :3 - - {token}");
    bed.call("one of two attempts is released", &release, &keys, &one);
    let last = format!("a1 600000 :1 :2 - - {token}");
    bed.call(
        "the last attempt is released, and a waiter is notified",
        &release,
        &keys,
        &last,
    );
    bed.call("a copy of that release", &release, &keys, &last);
    bed.pass(1);
    let granted = kind.wait(bed, "the notified waiter is granted", "b2", 4);
    let old = format!("by a1 30000 630000 :1 {token}");
    bed.call("taken", &renew, "n", &old);
    bed.call(
        "a copy of the release after the next grant",
        &release,
        &keys,
        &last,
    );
    let release_b2 = format!(
        "b2 600000 :3 :4 - {} {}",
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
    let renewal = format!("by a1 30000 630000 :1 {token}");
    bed.call("expired, at the end to the ms", &renew, "n", &renewal);
    let held = format!("a1 600000 :1 :2 - - {token}");
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
    let other = "by a1 30000 630000 :1 1700000000000000";
    bed.call("taken, an unknown token that is lower", &renew, "n", other);
}

/// Undone attempts and their late copies.
fn undone(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, keys) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.keys("n"),
    );
    let undo = "a1 600000 :1 :2 by - -";
    bed.call(
        "an undo ends an attempt that never ran",
        &release,
        &keys,
        undo,
    );
    kind.wait(bed, "void", "a1", 2);
    let fresh = "by a1 30000 630000 - :1 :3 - -";
    bed.call("granted, a later attempt", &acquire, &keys, fresh);
    let undo = "a1 600000 :1 :3 by - -";
    bed.call(
        "an undo ends the hold and its attempt",
        &release,
        &keys,
        undo,
    );
    bed.pass(6000);
    let fresh = "by a1 30000 630000 - :1 :4 - -";
    bed.call(
        "granted, and removes marks that are over",
        &acquire,
        &keys,
        fresh,
    );
    kind.wait(bed, "busy, before a leave", "b2", 2);
    let address = kind.address("b2", 2, 1);
    let leave = format!("b2 600000 :1 :2 by {address} -");
    bed.call(
        "a waiter leaves: its place is removed, its attempt marked",
        &release,
        &keys,
        &leave,
    );
    let late = "past a1 30000 630000 - :5 :6 - -";
    bed.call("late", &acquire, &keys, late);
    bed.call(
        "late",
        &kind.script("renew"),
        "n",
        "past a1 30000 630000 :1 1700000000000000",
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
    let renewal = format!("by a1 30000 630000 :1 {token}");
    bed.call("revoked", &renew, "n", &renewal);
    let again = "by a1 30000 630000 - :1 :3 - -";
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
    let held = format!("a1 600000 :1 :2 - - {token}");
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
    let both = "by a1 30000 630000 all :1 :2 - -";
    let granted = bed.call("two names are granted together", &acquire, keys, both);
    let (first, second) = (granted[3].clone(), granted[7].clone());
    let other = "by b2 30000 630000 all :1 :2 - -";
    bed.call("one of two names is busy", &acquire, keys, other);
    bed.pass(10);
    let renewal = format!("by a1 30000 630000 :1 {first} :1 {second}");
    bed.call("two holds are renewed", &renew, "n m", &renewal);
    let held = format!("a1 600000 :1 :2 - - {first} :1 :2 - - {second}");
    bed.call("two holds are released", &release, keys, &held);
    bed.put("HSET %m k other:1");
    bed.call("one of two names is of another kind", &acquire, keys, both);
}

/// Calls of several callers in one script.
fn merged(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, renew) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.script("renew"),
    );
    let keys = kind.keys_of_both();
    let both = "by a1 30000 630000 - :1 :2 - - :3 :4 - -";
    let reply = bed.call("two free names, each for itself", &acquire, keys, both);
    let token = reply[3].clone();
    let name = "one free name, one that is held, and one that is no hash";
    let mixed = format!("{} {} {}", kind.keys("o"), kind.keys("m"), kind.keys("r"));
    bed.put("SET %r text");
    let args = "30000 630000 - :5 :6 - - :7 :8 - - :9 :11 - -";
    bed.call(name, &acquire, &mixed, &format!("by a1 {args}"));
    bed.call(
        "late, for all",
        &acquire,
        &mixed,
        &format!("past a1 {args}"),
    );
    bed.pass(1000);
    let renewal = format!("by a1 30000 630000 :1 {token} :3 {token}");
    bed.call("two holds are renewed", &renew, "n m", &renewal);
    let late = format!("past a1 30000 630000 :1 {token} :3 {token}");
    bed.call("late", &renew, "n m", &late);
    let release_all = format!("a1 600000 :1 :2 - - {token} :3 :9 - - {token} :5 :6 - - {token}");
    let name = "one hold, one of another attempt, and a name that is no hash";
    let mixed = format!("{} {} {}", kind.keys("n"), kind.keys("m"), kind.keys("r"));
    bed.call(name, &release, &mixed, &release_all);
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
        "by a1 30000 630000 :1 1700000000000000",
    );
    let held = "a1 600000 :1 :2 - - 1700000000000000";
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
    let args = "by a1 30000 630000 - :1 :2 - -";
    bed.call("a clock before 2001", &kind.script("acquire"), &keys, args);
}

/// Entries of waiters that their client does not know.
fn withdrawals(bed: &mut Bed, kind: &Kind) {
    let (withdraw, keys) = (kind.script("withdraw"), kind.keys("n"));
    let token = kind.take(bed, "n", "a1", 2);
    for n in [2, 4] {
        let args = format!(
            "by b2 30000 630000 - :{} :{n} 5000 {}",
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
        "by c3 30000 630000 - :1 :2 5000 {}",
        kind.address("c3", 2, 1)
    );
    bed.run(&kind.script("acquire"), &keys, &args);
    bed.run(
        &kind.script("release"),
        &keys,
        &format!("a1 600000 :1 :2 - - {token}"),
    );
    let name = "the notified entry is removed, and the next waiter is notified";
    bed.call(name, &withdraw, &keys, "strike redlatch:w:b2 4");
}
