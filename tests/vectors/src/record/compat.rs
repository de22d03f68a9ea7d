//! The scripts about the layouts of other libraries.

use crate::Bed;

/// A raw name, and the hash of marks beside it.
const SET_NX: &str = "=n =redlatch:setnx?{n}{}";

/// The channel on which clients of this family are told.
const TOLD: &str = "redlatch:setnx?{n}{}";

const REDISSON: &str = "=n =redlatch:redisson?{n}{}";

/// Redisson's channel of the name.
const CHANNEL: &str = "redisson_lock__channel:{n}";

/// Owners as Redisson writes them: a client of this family, and a Java thread.
const RUST: &str = "11111111-2222-4333-8444-555555555555:1";
const JAVA: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";

pub(super) fn set_nx(bed: &mut Bed) {
    let (acquire, renew) = ("setnx/acquire", "setnx/renew");
    let (release, look) = ("setnx/release", "setnx/look");
    bed.call("free", look, "=n", "");
    bed.call("the first", acquire, SET_NX, "by a1:1 30000");
    bed.pass(1000);
    bed.call("a copy of the first", acquire, SET_NX, "by a1:1 30000");
    bed.call("held by an attempt", acquire, SET_NX, "by b2:1 30000");
    bed.call("held", look, "=n", "");
    bed.call("renewed", renew, "=n", "by a1:1 30000");
    bed.call("a longer lease", renew, "=n", "by a1:1 60000");
    bed.call("a longer lease stays", renew, "=n", "by a1:1 30000");
    let name = "a copy of the first, whose lease is longer by now";
    bed.call(name, acquire, SET_NX, "by a1:1 30000");
    bed.call("taken", renew, "=n", "by b2:1 30000");
    let other = format!("b2:1 - {TOLD}");
    bed.call("taken: another attempt has it", release, SET_NX, &other);
    let own = format!("a1:1 - {TOLD}");
    bed.call("released, and tells", release, SET_NX, &own);
    bed.call("gone: a copy of the release", release, SET_NX, &own);
    bed.call("gone", renew, "=n", "by a1:1 30000");
    bed.put("SET n token-of-another-library PX 8000");
    bed.call("held by another library", acquire, SET_NX, "by a1:2 30000");
    bed.call("taken: another library", release, SET_NX, &own);
    bed.put("SET n token-of-redis-py");
    let name = "held by another library without an end";
    bed.call(name, acquire, SET_NX, "by a1:3 30000");
    bed.call("held without an end", look, "=n", "");
}

pub(super) fn set_nx_undone(bed: &mut Bed) {
    let (acquire, release) = ("setnx/acquire", "setnx/release");
    let undo = |attempt: &str, bed: &Bed| {
        let void = bed.millis() + 5000;
        format!("{attempt} {void} {TOLD}")
    };
    bed.run(acquire, SET_NX, "by a1:1 30000");
    let args = undo("a1:1", bed);
    bed.call("released, with a copy on the way", release, SET_NX, &args);
    bed.call("void: the copy", acquire, SET_NX, "by a1:1 30000");
    let args = undo("a1:2", bed);
    bed.call("gone, before it arrives", release, SET_NX, &args);
    bed.call("void: it arrives", acquire, SET_NX, "by a1:2 30000");
    bed.pass(1000);
    let name = "granted, while marks of others last";
    bed.call(name, acquire, SET_NX, "by b2:1 30000");
}

pub(super) fn redisson(bed: &mut Bed) {
    let (acquire, renew) = ("redisson/acquire", "redisson/renew");
    let (release, look) = ("redisson/release", "redisson/look");
    let take =
        |attempt: &str, lease: u32| format!("by {RUST} {attempt} {lease} {}", lease + 30_000);
    bed.call("free", look, REDISSON, "");
    bed.call("the first", acquire, REDISSON, &take("a1:1", 30_000));
    bed.pass(1000);
    bed.call("a copy", acquire, REDISSON, &take("a1:1", 30_000));
    bed.call("held by us", look, REDISSON, "");
    bed.call("again", acquire, REDISSON, &take("a1:2", 60_000));
    let name = "again, and the longer lease stays";
    bed.call(name, acquire, REDISSON, &take("a1:3", 10_000));
    let java = format!("by {JAVA} b2:1 30000 60000");
    bed.call("held by us", acquire, REDISSON, &java);
    bed.pass(1000);
    let args = format!("by {RUST} 30000 60000");
    bed.call("a longer lease stays", renew, REDISSON, &args);
    let args = format!("by {RUST} 90000 120000");
    bed.call("renewed", renew, REDISSON, &args);
    bed.call("taken", renew, REDISSON, &format!("by {JAVA} 30000 60000"));
    let give = |attempt: &str| format!("{RUST} {attempt} - 30000 {CHANNEL}");
    bed.call("released, two left", release, REDISSON, &give("a1:2"));
    bed.call("already: a copy", release, REDISSON, &give("a1:2"));
    bed.call("released, one left", release, REDISSON, &give("a1:1"));
    bed.call("gone: an older copy", release, REDISSON, &give("a1:2"));
    let other = format!("{JAVA} b2:1 - 30000 {CHANNEL}");
    bed.call("taken: we have it", release, REDISSON, &other);
    bed.call("released, and tells", release, REDISSON, &give("a1:3"));
    bed.call(
        "already: a copy of the last",
        release,
        REDISSON,
        &give("a1:3"),
    );
    bed.call("gone", renew, REDISSON, &format!("by {RUST} 30000 60000"));
    let name = "the first after a release";
    bed.call(name, acquire, REDISSON, &take("a1:4", 30_000));
}

pub(super) fn redisson_ends(bed: &mut Bed) {
    let (acquire, release) = ("redisson/acquire", "redisson/release");
    let take = |attempt: &str| format!("by {RUST} {attempt} 30000 60000");
    let give = |attempt: &str| format!("{RUST} {attempt} - 30000 {CHANNEL}");
    let undo = |attempt: &str, bed: &Bed| {
        let void = bed.millis() + 5000;
        format!("{RUST} {attempt} {void} 30000 {CHANNEL}")
    };
    bed.run(acquire, REDISSON, &take("a1:1"));
    bed.pass(31_000);
    bed.call("expired", release, REDISSON, &give("a1:1"));
    bed.run(acquire, REDISSON, &take("a1:2"));
    bed.pass(31_000);
    bed.put(&format!("HSET n {JAVA} 1"));
    bed.put("PEXPIRE n 30000");
    let name = "taken: the lease has ended, and Java has it";
    bed.call(name, release, REDISSON, &give("a1:2"));
    bed.clear();
    let args = undo("a1:3", bed);
    bed.call("gone, before it arrives", release, REDISSON, &args);
    bed.call("void: it arrives", acquire, REDISSON, &take("a1:3"));
    bed.pass(1000);
    let name = "granted, while marks of others last";
    bed.call(name, acquire, REDISSON, &take("a1:4"));
    let args = undo("a1:4", bed);
    let name = "released, with a copy on the way";
    bed.call(name, release, REDISSON, &args);
    bed.call("void: the copy", acquire, REDISSON, &take("a1:4"));
}

/// What Redisson writes, as its own commands: `HINCRBY` and `PEXPIRE`.
pub(super) fn redisson_as_java(bed: &mut Bed) {
    let (acquire, look, force) = ("redisson/acquire", "redisson/look", "redisson/force");
    let take = format!("by {RUST} a1:1 30000 60000");
    bed.put(&format!("HINCRBY n {JAVA} 1"));
    bed.put("PEXPIRE n 30000");
    bed.put(&format!("HINCRBY n {JAVA} 1"));
    bed.pass(10);
    bed.call("held by Java, twice", look, REDISSON, "");
    bed.call("held by Java", acquire, REDISSON, &take);
    bed.put("PERSIST n");
    bed.call("held by Java without an end", acquire, REDISSON, &take);
    bed.call("held by Java without an end", look, REDISSON, "");
    let name = "gone: another owner than the one found";
    bed.call(name, force, "=n", &format!("{RUST} {CHANNEL}"));
    let end = format!("{JAVA} {CHANNEL}");
    bed.call("done, and tells", force, "=n", &end);
    bed.call("gone", force, "=n", &end);
    bed.call("the first after Java", acquire, REDISSON, &take);
}

pub(super) fn refusals(bed: &mut Bed) {
    let owner = format!("{RUST} a1:1 30000 60000");
    let dated = [
        ("setnx/acquire", SET_NX, "a1:1 30000"),
        ("setnx/renew", "=n", "a1:1 30000"),
        ("redisson/acquire", REDISSON, &owner),
        ("redisson/renew", REDISSON, &format!("{RUST} 30000 60000")),
    ];
    bed.put(&format!("HSET n mode write {JAVA}:write 1"));
    for (script, keys, args) in dated {
        bed.call("late", script, keys, &format!("past {args}"));
    }
    bed.call("kind", "redisson/acquire", REDISSON, &format!("by {owner}"));
    bed.call("kind", "redisson/look", REDISSON, "");
    bed.call("kind", "redisson/force", "=n", &format!("{JAVA} {CHANNEL}"));
    let renew = format!("by {RUST} 30000 60000");
    let name = "taken: a hash that is no RLock";
    bed.call(name, "redisson/renew", REDISSON, &renew);
    let give = format!("{RUST} a1:1 - 30000 {CHANNEL}");
    bed.call(name, "redisson/release", REDISSON, &give);
    bed.clear();
    bed.set_micros(999_999_999_999_999);
    for (script, keys, args) in dated {
        bed.call("a clock before 2001", script, keys, &format!("by {args}"));
    }
}
