//! The scripts about the layouts of other libraries.

use crate::Bed;

/// A raw name, and the hash of marks beside it.
const SET_NX: &str = "=n =redlatch:setnx?{n}{}";

/// The channel on which clients of this family are told.
const TOLD: &str = "redlatch:setnx?{n}{}";

const REDISSON: &str = "=n =redlatch:redisson?{n}{}";

const FORCE: &str = "=n =redlatch:redisson?{n}{} =redlatch:redissonforce?{n}{}";

/// Redisson's channel of the name.
const CHANNEL: &str = "redisson_lock__channel:{n}";

/// Owners as Redisson writes them: a client of this family, and a Java thread.
const RUST: &str = "11111111-2222-4333-8444-555555555555:1";
const JAVA: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";

pub(super) fn set_nx(bed: &mut Bed) {
    let (acquire, renew) = ("setnx/acquire", "setnx/renew");
    let (release, look) = ("setnx/release", "setnx/look");
    bed.call("free", look, "=n", "");
    let first = "by a1:1 30000 60000";
    let serial = bed.call("the first", acquire, SET_NX, first)[2].clone();
    bed.pass(1000);
    bed.call("a copy of the first", acquire, SET_NX, first);
    let other = "by b2:1 30000 60000";
    bed.call("held by an attempt", acquire, SET_NX, other);
    bed.call("held", look, "=n", "");
    let args = |lease: u32| format!("by a1:1 {serial} {lease} {}", lease + 30_000);
    bed.call("renewed", renew, SET_NX, &args(30_000));
    bed.call("a longer lease", renew, SET_NX, &args(60_000));
    bed.call("a longer lease stays", renew, SET_NX, &args(30_000));
    let name = "a copy of the first, whose lease is longer by now";
    bed.call(name, acquire, SET_NX, first);
    let taken = format!("by b2:1 {serial} 30000 60000");
    bed.call("taken", renew, SET_NX, &taken);
    let other = format!("b2:1 - - 30000 {TOLD}");
    bed.call("taken: another attempt has it", release, SET_NX, &other);
    let own = format!("a1:1 {serial} - 30000 {TOLD}");
    bed.call("released, and tells", release, SET_NX, &own);
    bed.call("already: a copy of the release", release, SET_NX, &own);
    bed.call("gone: nobody has it", release, SET_NX, &other);
    bed.call("gone", renew, SET_NX, &args(30_000));
    bed.put("SET n token-of-another-library PX 8000");
    let third = "by a1:2 30000 60000";
    bed.call("held by another library", acquire, SET_NX, third);
    bed.call("taken: another library", release, SET_NX, &other);
    bed.put("SET n token-of-redis-py");
    let name = "held by another library without an end";
    bed.call(name, acquire, SET_NX, "by a1:3 30000 60000");
    bed.call("held without an end", look, "=n", "");
}

pub(super) fn set_nx_undone(bed: &mut Bed) {
    let (acquire, release) = ("setnx/acquire", "setnx/release");
    let undo = |attempt: &str, bed: &Bed| {
        let void = bed.millis() + 5000;
        format!("{attempt} - {void} 30000 {TOLD}")
    };
    bed.run(acquire, SET_NX, "by a1:1 30000 60000");
    let args = undo("a1:1", bed);
    bed.call("released, with a copy on the way", release, SET_NX, &args);
    bed.call("void: the copy", acquire, SET_NX, "by a1:1 30000 60000");
    let args = undo("a1:2", bed);
    bed.call("gone, before it arrives", release, SET_NX, &args);
    bed.call("void: it arrives", acquire, SET_NX, "by a1:2 30000 60000");
    bed.pass(1000);
    let name = "granted, while copies of others are refused";
    bed.call(name, acquire, SET_NX, "by b2:1 30000 60000");
}

/// A late copy takes a name again after another program has removed the value.
pub(super) fn set_nx_revived(bed: &mut Bed) {
    let (acquire, renew) = ("setnx/acquire", "setnx/renew");
    let take = "by a1:1 30000 60000";
    let serial = bed.run(acquire, SET_NX, take)[2].clone();
    bed.put("DEL n");
    // Serials rise although the clock is set back.
    bed.set_micros(serial.parse::<u64>().unwrap_or_default() - 3_000_000);
    let name = "granted: a late copy, after the value was removed";
    bed.call(name, acquire, SET_NX, take);
    let args = format!("by a1:1 {serial} 30000 60000");
    bed.call("taken: a late copy has it", renew, SET_NX, &args);
    let own = format!("a1:1 {serial} - 30000 {TOLD}");
    let name = "gone: the hold, and what the late copy took";
    bed.call(name, "setnx/release", SET_NX, &own);
}

pub(super) fn redisson(bed: &mut Bed) {
    let (acquire, renew) = ("redisson/acquire", "redisson/renew");
    let (release, look) = ("redisson/release", "redisson/look");
    let take =
        |attempt: &str, lease: u32| format!("by {RUST} {attempt} {lease} {}", lease + 30_000);
    bed.call("free", look, REDISSON, "");
    let serial = bed.call("the first", acquire, REDISSON, &take("a1:1", 30_000))[3].clone();
    bed.pass(1000);
    bed.call("a copy", acquire, REDISSON, &take("a1:1", 30_000));
    bed.call("held by us", look, REDISSON, "");
    bed.call("again", acquire, REDISSON, &take("a1:2", 60_000));
    let name = "again, and the longer lease stays";
    bed.call(name, acquire, REDISSON, &take("a1:3", 10_000));
    let java = format!("by {JAVA} b2:1 30000 60000");
    bed.call("held by us", acquire, REDISSON, &java);
    bed.pass(1000);
    let longer = |owner: &str, lease: u32| {
        let ttl = lease + 30_000;
        format!("by {owner} {lease} {ttl} {serial}")
    };
    let args = longer(RUST, 30_000);
    bed.call("a longer lease stays", renew, REDISSON, &args);
    bed.call("renewed", renew, REDISSON, &longer(RUST, 90_000));
    bed.call("taken", renew, REDISSON, &longer(JAVA, 30_000));
    let give = |attempt: &str| format!("{RUST} {attempt} - 30000 {CHANNEL} {serial}");
    bed.call("released, two left", release, REDISSON, &give("a1:2"));
    bed.call("already: a copy", release, REDISSON, &give("a1:2"));
    bed.call("released, one left", release, REDISSON, &give("a1:1"));
    bed.call("gone: an older copy", release, REDISSON, &give("a1:2"));
    let other = format!("{JAVA} b2:1 - 30000 {CHANNEL} -");
    bed.call("taken: we have it", release, REDISSON, &other);
    bed.call("released, and tells", release, REDISSON, &give("a1:3"));
    bed.call(
        "already: a copy of the last",
        release,
        REDISSON,
        &give("a1:3"),
    );
    bed.call("gone", renew, REDISSON, &longer(RUST, 30_000));
    let name = "the first after a release";
    bed.call(name, acquire, REDISSON, &take("a1:4", 30_000));
}

pub(super) fn redisson_ends(bed: &mut Bed) {
    let (acquire, release) = ("redisson/acquire", "redisson/release");
    let take = |attempt: &str| format!("by {RUST} {attempt} 30000 60000");
    let give = |attempt: &str| format!("{RUST} {attempt} - 30000 {CHANNEL} -");
    let undo = |attempt: &str, bed: &Bed| {
        let void = bed.millis() + 5000;
        format!("{RUST} {attempt} {void} 30000 {CHANNEL} -")
    };
    bed.run(acquire, REDISSON, &take("a1:1"));
    bed.pass(31_000);
    bed.call(
        "gone: the lease has ended",
        release,
        REDISSON,
        &give("a1:1"),
    );
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
    let name = "granted, while copies of others are refused";
    bed.call(name, acquire, REDISSON, &take("a1:4"));
    let args = undo("a1:4", bed);
    let name = "released, with a copy on the way";
    bed.call(name, release, REDISSON, &args);
    bed.call("void: the copy", acquire, REDISSON, &take("a1:4"));
}

/// A late copy takes a name again, and the hash beside the name is lost.
pub(super) fn redisson_revived(bed: &mut Bed) {
    let (acquire, renew) = ("redisson/acquire", "redisson/renew");
    let release = "redisson/release";
    let take = |attempt: &str| format!("by {RUST} {attempt} 30000 60000");
    let serial = bed.run(acquire, REDISSON, &take("a1:1"))[3].clone();
    let longer = format!("by {RUST} 30000 60000 {serial}");
    let give = |attempt: &str| format!("{RUST} {attempt} - 30000 {CHANNEL} {serial}");
    bed.put("DEL n");
    // Serials rise although the clock is set back.
    bed.set_micros(serial.parse::<u64>().unwrap_or_default() - 3_000_000);
    let name = "granted: a late copy, after the hold was ended";
    bed.call(name, acquire, REDISSON, &take("a1:1"));
    bed.call("taken: a late copy has it", renew, REDISSON, &longer);
    let name = "gone: the hold, and what the late copy took";
    bed.call(name, release, REDISSON, &give("a1:1"));
    bed.clear();

    let serial = bed.run(acquire, REDISSON, &take("a1:2"))[3].clone();
    let longer = format!("by {RUST} 30000 60000 {serial}");
    let give = |attempt: &str| format!("{RUST} {attempt} - 30000 {CHANNEL} {serial}");
    bed.run(acquire, REDISSON, &take("a1:3"));
    bed.put("DEL redlatch:redisson?{n}{}");
    let name = "gone: the hash beside the name is lost";
    bed.call(name, renew, REDISSON, &longer);
    bed.call(name, release, REDISSON, &give("a1:2"));
    let name = "granted: anew, since the hash beside the name is lost";
    bed.call(name, acquire, REDISSON, &take("a1:4"));
    let name = "gone: a hold whose attempts are lost";
    bed.call(name, release, REDISSON, &give("a1:3"));
}

/// What Redisson writes, as its own commands: `HINCRBY` and `PEXPIRE`.
pub(super) fn redisson_as_java(bed: &mut Bed) {
    let (acquire, look) = ("redisson/acquire", "redisson/look");
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
}

pub(super) fn redisson_force(bed: &mut Bed) {
    let (acquire, renew) = ("redisson/acquire", "redisson/renew");
    let (release, force) = ("redisson/release", "redisson/force");
    let end =
        |op: &str, owner: &str, serial: &str| format!("by {op} {owner} {serial} 30000 {CHANNEL}");
    bed.put(&format!("HINCRBY n {JAVA} 1"));
    bed.put("PEXPIRE n 30000");
    let name = "gone: another owner than the one found";
    bed.call(name, force, FORCE, &end("a1:7", RUST, "-"));
    bed.call("done, and tells", force, FORCE, &end("a1:8", JAVA, "-"));
    bed.put(&format!("HINCRBY n {JAVA} 1"));
    bed.put("PEXPIRE n 30000");
    let name = "done: a copy, and a later hold stays";
    bed.call(name, force, FORCE, &end("a1:8", JAVA, "-"));
    bed.put("DEL n");
    bed.call("gone", force, FORCE, &end("a1:9", JAVA, "-"));
    bed.put(&format!("HINCRBY n {JAVA} 1"));
    bed.put("PEXPIRE n 30000");
    let name = "gone: a copy, and a later hold stays";
    bed.call(name, force, FORCE, &end("a1:9", JAVA, "-"));
    bed.put("DEL n");

    let take = format!("by {RUST} a1:1 30000 60000");
    let serial = bed.run(acquire, REDISSON, &take)[3].clone();
    let name = "gone: a later hold of the owner";
    bed.call(name, force, FORCE, &end("b2:1", RUST, "1700000000000001"));
    let name = "done: a hold of this family";
    bed.call(name, force, FORCE, &end("b2:2", RUST, &serial));
    let longer = format!("by {RUST} 30000 60000 {serial}");
    bed.call("revoked", renew, REDISSON, &longer);
    let give = format!("{RUST} a1:1 - 30000 {CHANNEL} {serial}");
    bed.call("revoked", release, REDISSON, &give);
    bed.call("revoked: a copy", release, REDISSON, &give);
    bed.pass(31_000);
    let name = "gone: older operations are forgotten";
    bed.call(name, force, FORCE, &end("b2:3", JAVA, "-"));
}

pub(super) fn refusals(bed: &mut Bed) {
    let owner = format!("{RUST} a1:1 30000 60000");
    let serial = "1700000000000001";
    let renew = format!("{RUST} 30000 60000 {serial}");
    let end = format!("b2:1 {JAVA} - 30000 {CHANNEL}");
    let dated = [
        ("setnx/acquire", SET_NX, "a1:1 30000 60000"),
        ("setnx/renew", SET_NX, "a1:1 1700000000000001 30000 60000"),
        ("redisson/acquire", REDISSON, &owner),
        ("redisson/renew", REDISSON, &renew),
        ("redisson/force", FORCE, &end),
    ];
    bed.put(&format!("HSET n mode write {JAVA}:write 1"));
    for (script, keys, args) in dated {
        bed.call("late", script, keys, &format!("past {args}"));
    }
    bed.call("kind", "redisson/acquire", REDISSON, &format!("by {owner}"));
    bed.call("kind", "redisson/look", REDISSON, "");
    bed.call("kind", "redisson/force", FORCE, &format!("by {end}"));
    let name = "taken: a hash that is no RLock";
    bed.call(name, "redisson/renew", REDISSON, &format!("by {renew}"));
    let give = format!("{RUST} a1:1 - 30000 {CHANNEL} {serial}");
    bed.call(name, "redisson/release", REDISSON, &give);
    bed.clear();
    bed.set_micros(999_999_999_999_999);
    for (script, keys, args) in dated {
        bed.call("a clock before 2001", script, keys, &format!("by {args}"));
    }
}
