//! Readers and the writer of a read-write lock.

use crate::Bed;

/// K, Q, R, L, D.
pub(super) const KEYS: &str = "n n:q n:r n:l n:d";
const TOLD: &str = "PUBLISH %n:b";

/// Asks to read without waiting; `kind` is `r` or `u`.
pub(super) fn read(bed: &mut Bed, name: &str, client: &str, n: u32, kind: &str) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client}:{owner} {client}:{n} 30000 630000 - - {kind} {TOLD}");
    ask(bed, name, "rwlock/read", &args)
}

/// Asks to write without waiting. `serial` is that of an upgradable hold, or `-`.
pub(super) fn write(bed: &mut Bed, name: &str, client: &str, n: u32, serial: &str) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client}:{owner} {client}:{n} 30000 630000 - - {serial} {TOLD}");
    ask(bed, name, "rwlock/write", &args)
}

/// Releases attempt `n`; `id` is its token or serial.
pub(super) fn release(bed: &mut Bed, name: &str, client: &str, n: u32, id: &str) -> Vec<String> {
    let (side, id) = id.split_once(' ').expect("a side and an id");
    let owner = n - 1;
    let args = format!("{client}:{owner} {client}:{n} - 600000 - {side} {id} {TOLD}");
    ask(bed, name, "rwlock/release", &args)
}

/// Records a call with a name, and only runs one without.
fn ask(bed: &mut Bed, name: &str, script: &str, args: &str) -> Vec<String> {
    if name.is_empty() {
        bed.run(script, KEYS, args)
    } else {
        bed.call(name, script, KEYS, args)
    }
}

pub(super) fn force(bed: &mut Bed, name: &str, args: &str) {
    bed.call(name, "rwlock/force", KEYS, &format!("{args} 600000 {TOLD}"));
}

pub(super) fn readers(bed: &mut Bed) {
    let renew = "rwlock/renew";
    bed.call("nobody holds", "rwlock/inspect", KEYS, "-");
    let first = read(bed, "the first reader", "a1", 2, "r")[6].clone();
    read(bed, "a copy of a granted request", "a1", 2, "r");
    bed.pass(10);
    let second = read(bed, "a second reader", "b2", 2, "r")[6].clone();
    read(bed, "the owner enters again", "a1", 2, "r");
    bed.call("all readers", "rwlock/holders", "n", "0");
    bed.call(
        "readers, and the holds of one owner",
        "rwlock/inspect",
        KEYS,
        "a1:1",
    );
    write(bed, "busy, readers are inside", "c3", 2, "-");
    let again = format!("by a1:1 a1:9 30000 630000 - - - {TOLD}");
    ask(
        bed,
        "reader, who would wait for itself",
        "rwlock/write",
        &again,
    );
    read(
        bed,
        "reader, who asks for the upgradable hold",
        "a1",
        2,
        "u",
    );
    bed.pass(1000);
    bed.call(
        "renewed",
        renew,
        "n",
        &format!("by a1:1 30000 630000 r {first}"),
    );
    bed.call(
        "late",
        renew,
        "n",
        &format!("past a1:1 30000 630000 r {first}"),
    );
    release(bed, "a reader is released", "a1", 2, &format!("r {first}"));
    release(bed, "already", "a1", 2, &format!("r {first}"));
    bed.call(
        "gone",
        renew,
        "n",
        &format!("by a1:1 30000 630000 r {}", "9".repeat(16)),
    );
    force(
        bed,
        "the renewal of a reader is forbidden",
        &format!("r b2:1 {second} after"),
    );
    force(bed, "already", &format!("r b2:1 {second} after"));
    bed.call(
        "revoked",
        renew,
        "n",
        &format!("by b2:1 30000 630000 r {second}"),
    );
    force(
        bed,
        "a reader is ended at once",
        &format!("r b2:1 {second} now"),
    );
    release(bed, "revoked", "b2", 2, &format!("r {second}"));
    let undo = format!("c3:1 c3:2 by 600000 - r - {TOLD}");
    bed.call(
        "an undo ends an attempt that never ran",
        "rwlock/release",
        KEYS,
        &undo,
    );
    read(bed, "void", "c3", 2, "r");
    write(bed, "void", "c3", 2, "-");
    let third = read(bed, "granted, of another client", "d4", 2, "r")[6].clone();
    bed.pass(30_000);
    bed.call(
        "expired",
        renew,
        "n",
        &format!("by d4:1 30000 630000 r {third}"),
    );
    release(bed, "expired", "d4", 2, &format!("r {third}"));
    release(bed, "gone", "d4", 2, &format!("r {}", "9".repeat(16)));
    write(bed, "granted, the readers are over", "a1", 4, "-");
    let taken = format!("by d4:1 30000 630000 r {third}");
    bed.call("taken, a reader before a write", renew, "n", &taken);
    release(
        bed,
        "taken, a reader before a write",
        "d4",
        2,
        &format!("r {third}"),
    );
}

pub(super) fn writer(bed: &mut Bed) {
    let renew = "rwlock/renew";
    let token = write(bed, "a free lock", "a1", 2, "-")[3].clone();
    write(bed, "a copy of a granted request", "a1", 2, "-");
    bed.pass(1000);
    let renewal = format!("by a1:1 30000 630000 w {token}");
    bed.call("renewed, a writer", renew, "n", &renewal);
    read(bed, "busy, a writer is inside", "b2", 2, "r");
    write(bed, "busy, a writer is inside", "b2", 2, "-");
    read(bed, "the writer reads as well", "a1", 2, "r");
    bed.call("a writer that reads", "rwlock/inspect", KEYS, "a1:1");
    release(
        bed,
        "the write ends, the read stays",
        "a1",
        2,
        &format!("w {token}"),
    );
    release(bed, "already, a writer", "a1", 2, &format!("w {token}"));
    bed.clear();
    let token = write(bed, "", "a1", 2, "-")[3].clone();
    bed.pass(30_001);
    bed.call(
        "expired, a writer",
        renew,
        "n",
        &format!("by a1:1 30000 630000 w {token}"),
    );
    release(bed, "expired, a writer", "a1", 2, &format!("w {token}"));
}

/// Writers that die, and writers that are ended by force.
pub(super) fn ended_writers(bed: &mut Bed) {
    let renew = "rwlock/renew";
    let lost = write(bed, "", "a1", 2, "-")[3].clone();
    bed.pass(30_001);
    read(
        bed,
        "granted after a writer that died: abandoned is 1",
        "b2",
        2,
        "r",
    );
    bed.clear();
    write(bed, "", "a1", 2, "-");
    bed.pass(30_001);
    let next = write(bed, "granted after a writer that died", "c3", 2, "-")[3].clone();
    bed.call(
        "taken, a writer",
        renew,
        "n",
        &format!("by a1:1 30000 630000 w {lost}"),
    );
    release(bed, "taken, a writer", "a1", 2, &format!("w {lost}"));
    force(bed, "gone, an earlier hold", &format!("w c3:1 {lost} now"));
    force(
        bed,
        "a writer is ended at once",
        &format!("w c3:1 {next} now"),
    );
    bed.call(
        "revoked, a writer",
        renew,
        "n",
        &format!("by c3:1 30000 630000 w {next}"),
    );
    release(bed, "revoked, a writer", "c3", 2, &format!("w {next}"));
}

/// Other kinds, and calls that come late.
pub(super) fn refusals(bed: &mut Bed) {
    let next = "1700000000123456";
    bed.put("HSET %n k other:1");
    for (script, keys, args) in [
        (
            "rwlock/read",
            KEYS,
            format!("by a1:1 a1:2 30000 630000 - - r {TOLD}"),
        ),
        (
            "rwlock/write",
            KEYS,
            format!("by a1:1 a1:2 30000 630000 - - - {TOLD}"),
        ),
        (
            "rwlock/downgrade",
            KEYS,
            format!("by a1:1 a1:3 30000 630000 a1:2 {next} - {TOLD}"),
        ),
        (
            "rwlock/renew",
            "n",
            format!("by a1:1 30000 630000 w {next}"),
        ),
        (
            "rwlock/release",
            KEYS,
            format!("a1:1 a1:2 - 600000 - w {next} {TOLD}"),
        ),
        ("rwlock/inspect", KEYS, "-".to_owned()),
        ("rwlock/holders", "n", "0".to_owned()),
        (
            "rwlock/force",
            KEYS,
            format!("w a1:1 {next} now 600000 {TOLD}"),
        ),
        (
            "rwlock/withdraw",
            KEYS,
            format!("list redlatch:w:a1 {TOLD}"),
        ),
    ] {
        bed.call("another kind", script, keys, &args);
        if let Some(args) = args.strip_prefix("by")
            && script != "rwlock/renew"
        {
            bed.call("late", script, keys, &format!("past{args}"));
        }
    }
}

/// The upgradable reader, and the downgrade of a writer.
pub(super) fn upgrade(bed: &mut Bed) {
    let serial = read(bed, "an upgradable reader", "a1", 2, "u")[6].clone();
    read(bed, "busy, there is an upgradable reader", "b2", 2, "u");
    let other = read(bed, "a reader beside the upgradable one", "b2", 4, "r")[6].clone();
    let wait = format!("by a1:1 a1:3 30000 630000 5000 @a1:3 {serial} {TOLD}");
    bed.call(
        "busy, the upgrade waits for a reader",
        "rwlock/write",
        KEYS,
        &wait,
    );
    read(bed, "busy, an upgrade waits", "c3", 2, "r");
    release(
        bed,
        "the last other reader leaves, and the upgrade is told",
        "b2",
        4,
        &format!("r {other}"),
    );
    let token = bed.call("the upgrade is granted", "rwlock/write", KEYS, &wait)[3].clone();
    write(
        bed,
        "lost, the upgradable hold is over",
        "d4",
        2,
        "1700000000000001",
    );
    let down =
        |write: &str, token: &str| format!("by a1:1 a1:5 30000 630000 {write} {token} - {TOLD}");
    let (downgrade, args) = ("rwlock/downgrade", down("a1:3", &token));
    bed.call("the writer becomes a reader", downgrade, KEYS, &args);
    bed.call("a copy of the downgrade", downgrade, KEYS, &args);
    let undo = format!("a1:1 a1:6 by 600000 - r - {TOLD}");
    bed.run("rwlock/release", KEYS, &undo);
    let args = format!("by a1:1 a1:6 30000 630000 a1:3 {token} - {TOLD}");
    bed.call("void", downgrade, KEYS, &args);
    bed.clear();
    bed.call("lost, gone", downgrade, KEYS, &down("a1:3", &token));
    let token = write(bed, "", "a1", 2, "-")[3].clone();
    bed.pass(30_001);
    bed.call("lost, expired", downgrade, KEYS, &down("a1:2", &token));
    write(bed, "", "b2", 2, "-");
    bed.call("lost, taken", downgrade, KEYS, &down("a1:2", &token));
    bed.clear();
    let token = write(bed, "", "a1", 2, "-")[3].clone();
    bed.run(
        "rwlock/force",
        KEYS,
        &format!("w a1:1 {token} now 600000 {TOLD}"),
    );
    bed.call("lost, revoked", downgrade, KEYS, &down("a1:2", &token));
}

/// A clock that scripts cannot compare.
pub(super) fn ends(bed: &mut Bed) {
    bed.set_micros(999_999_999_999_999);
    for (script, args) in [
        (
            "rwlock/read",
            format!("by a1:1 a1:2 30000 630000 - - r {TOLD}"),
        ),
        (
            "rwlock/write",
            format!("by a1:1 a1:2 30000 630000 - - - {TOLD}"),
        ),
        (
            "rwlock/downgrade",
            format!("by a1:1 a1:3 30000 630000 a1:2 17 - {TOLD}"),
        ),
    ] {
        bed.call("a clock before 2001", script, KEYS, &args);
    }
    let args = "by a1 30000 630000 :1 :2";
    bed.call("a clock before 2001", "rwlock/read_each", "n n:d", args);
    bed.call("a clock before 2001", "rwlock/write_each", "n", args);
}

pub(super) fn merged(bed: &mut Bed) {
    let both = "a1 30000 630000 :1 :2 :3 :4";
    let name = "one free lock, and one that is written and left as it is";
    let token = write(bed, "", "b2", 2, "-")[3].clone();
    let read = bed.call(
        name,
        "rwlock/read_each",
        "n n:d m m:d",
        &format!("by {both}"),
    );
    bed.call(
        "late",
        "rwlock/read_each",
        "n n:d m m:d",
        &format!("past {both}"),
    );
    let serial = read.last().expect("a serial").clone();
    let name = "one free lock, and one that is read and left as it is";
    let written = bed.call(name, "rwlock/write_each", "o m", &format!("by {both}"));
    bed.call("late", "rwlock/write_each", "o m", &format!("past {both}"));
    let own = written[3].clone();
    bed.pass(1000);
    bed.put("HSET %p k other:1");
    let renewals =
        format!("a1 30000 630000 :3 r {serial} :1 w {own} :5 w {token} :7 w {token} :9 w {token}");
    let name = "a reader and a writer are renewed, gone twice, another kind";
    bed.call(
        name,
        "rwlock/renew_each",
        "m o n q p",
        &format!("by {renewals}"),
    );
    bed.call(
        "late",
        "rwlock/renew_each",
        "m o n q p",
        &format!("past {renewals}"),
    );
    bed.run(
        "rwlock/force",
        "o o:q o:r o:l o:d",
        &format!("w a1:1 {own} after 600000 {TOLD}"),
    );
    let bad = format!("by a1 30000 630000 :1 w {own} :5 w 1700000000000001");
    bed.call("revoked, taken", "rwlock/renew_each", "o n", &bad);
    let name = "one read hold, and one that is unknown and left as it is";
    let ends = format!("a1 600000 :3 :4 {serial} :5 :6 {serial}");
    bed.call(name, "rwlock/read_release_each", "m m:d n n:d", &ends);
    let name = "one write hold, and one that is unknown and left as it is";
    let ends = format!("a1 600000 :2 {own} :9 {token}");
    bed.call(name, "rwlock/write_release_each", "o n", &ends);
    bed.pass(30_000);
    let over = format!("by b2 30000 630000 :1 w {token}");
    bed.call("expired", "rwlock/renew_each", "n", &over);
}
