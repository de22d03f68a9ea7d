//! Readers and the writer of a read-write lock.

use crate::Bed;

/// K, Q, R, L, D.
pub(super) const KEYS: &str = "n n:q n:r n:l n:d";

/// Asks to read without waiting; `kind` is `r` or `u`.
pub(super) fn read(bed: &mut Bed, name: &str, client: &str, n: u32, kind: &str) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client} 30000 630000 :{owner} :{n} - - {kind}");
    ask(bed, name, "rwlock/read", &args)
}

/// Asks to write without waiting. `serial` is that of an upgradable hold, or `-`.
pub(super) fn write(bed: &mut Bed, name: &str, client: &str, n: u32, serial: &str) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client} 30000 630000 :{owner} :{n} - - {serial}");
    ask(bed, name, "rwlock/write", &args)
}

/// Releases attempt `n`; `id` is its token or serial.
pub(super) fn release(bed: &mut Bed, name: &str, client: &str, n: u32, id: &str) -> Vec<String> {
    let (side, id) = id.split_once(' ').expect("a side and an id");
    let owner = n - 1;
    let args = format!("{client} 600000 :{owner} :{n} - - {side} {id}");
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
    bed.call(name, "rwlock/force", KEYS, &format!("{args} 600000"));
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
    let again = "by a1 30000 630000 :1 :9 - - -";
    ask(
        bed,
        "reader, who would wait for itself",
        "rwlock/write",
        again,
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
        &format!("by a1 30000 630000 :1 r {first}"),
    );
    bed.call(
        "late",
        renew,
        "n",
        &format!("past a1 30000 630000 :1 r {first}"),
    );
    release(bed, "a reader is released", "a1", 2, &format!("r {first}"));
    release(bed, "already", "a1", 2, &format!("r {first}"));
    bed.call(
        "gone",
        renew,
        "n",
        &format!("by a1 30000 630000 :1 r {}", "9".repeat(16)),
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
        &format!("by b2 30000 630000 :1 r {second}"),
    );
    force(
        bed,
        "a reader is ended at once",
        &format!("r b2:1 {second} now"),
    );
    release(bed, "revoked", "b2", 2, &format!("r {second}"));
    let undo = "c3 600000 :1 :2 by - r -";
    bed.call(
        "an undo ends an attempt that never ran",
        "rwlock/release",
        KEYS,
        undo,
    );
    read(bed, "void", "c3", 2, "r");
    write(bed, "void", "c3", 2, "-");
    let third = read(bed, "granted, of another client", "d4", 2, "r")[6].clone();
    bed.pass(30_000);
    bed.call(
        "expired",
        renew,
        "n",
        &format!("by d4 30000 630000 :1 r {third}"),
    );
    release(bed, "expired", "d4", 2, &format!("r {third}"));
    release(bed, "gone", "d4", 2, &format!("r {}", "9".repeat(16)));
    write(bed, "granted, the readers are over", "a1", 4, "-");
    let taken = format!("by d4 30000 630000 :1 r {third}");
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
    let renewal = format!("by a1 30000 630000 :1 w {token}");
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
        &format!("by a1 30000 630000 :1 w {token}"),
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
        &format!("by a1 30000 630000 :1 w {lost}"),
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
        &format!("by c3 30000 630000 :1 w {next}"),
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
            "by a1 30000 630000 :1 :2 - - r".to_owned(),
        ),
        (
            "rwlock/write",
            KEYS,
            "by a1 30000 630000 :1 :2 - - -".to_owned(),
        ),
        (
            "rwlock/downgrade",
            KEYS,
            format!("by a1:1 a1:3 30000 630000 a1:2 {next} -"),
        ),
        (
            "rwlock/renew",
            "n",
            format!("by a1 30000 630000 :1 w {next}"),
        ),
        (
            "rwlock/release",
            KEYS,
            format!("a1 600000 :1 :2 - - w {next}"),
        ),
        ("rwlock/inspect", KEYS, "-".to_owned()),
        ("rwlock/holders", "n", "0".to_owned()),
        ("rwlock/force", KEYS, format!("w a1:1 {next} now 600000")),
        ("rwlock/withdraw", KEYS, "list redlatch:w:a1".to_owned()),
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
    let wait = format!("by a1 30000 630000 :1 :3 5000 @a1:3 {serial}");
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
    let down = |write: &str, token: &str| format!("by a1:1 a1:5 30000 630000 {write} {token} -");
    let (downgrade, args) = ("rwlock/downgrade", down("a1:3", &token));
    bed.call("the writer becomes a reader", downgrade, KEYS, &args);
    bed.call("a copy of the downgrade", downgrade, KEYS, &args);
    let undo = "a1 600000 :1 :6 by - r -";
    bed.run("rwlock/release", KEYS, undo);
    let args = format!("by a1:1 a1:6 30000 630000 a1:3 {token} -");
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
    bed.run("rwlock/force", KEYS, &format!("w a1:1 {token} now 600000"));
    bed.call("lost, revoked", downgrade, KEYS, &down("a1:2", &token));
}

/// A clock that scripts cannot compare.
pub(super) fn ends(bed: &mut Bed) {
    bed.set_micros(999_999_999_999_999);
    for (script, args) in [
        ("rwlock/read", "by a1 30000 630000 :1 :2 - - r".to_owned()),
        ("rwlock/write", "by a1 30000 630000 :1 :2 - - -".to_owned()),
        (
            "rwlock/downgrade",
            "by a1:1 a1:3 30000 630000 a1:2 17 -".to_owned(),
        ),
    ] {
        bed.call("a clock before 2001", script, KEYS, &args);
    }
}

/// Several locks in one call.
pub(super) fn merged(bed: &mut Bed) {
    let (acquire, release) = (["rwlock/read", "rwlock/write"], "rwlock/release");
    let token = write(bed, "", "b2", 2, "-")[3].clone();
    bed.put("SET %s text");
    let name = "a free lock, one that is written, and one that is no hash";
    let keys = format!("{} {KEYS} {}", keys("m"), keys("s"));
    let args = "a1 30000 630000 :3 :4 - - r :5 :6 - - u :7 :8 - - r";
    let reply = bed.call(name, acquire[0], &keys, &format!("by {args}"));
    bed.call("late, for all", acquire[0], &keys, &format!("past {args}"));
    let serial = first_line(&reply[6]);
    let name = "a free lock, one that is read, one that is no hash, and again the first one";
    let keys = ["o", "m", "s", "o"].map(self::keys).join(" ");
    let args = "a1 30000 630000 :1 :2 - - - :5 :6 - - - :7 :8 - - - :1 :12 - - -";
    let reply = bed.call(name, acquire[1], &keys, &format!("by {args}"));
    bed.call("late, for all", acquire[1], &keys, &format!("past {args}"));
    let own = reply[3].clone();
    bed.pass(1000);
    bed.put("HSET %p k other:1");
    let renewals =
        format!("a1 30000 630000 :3 r {serial} :1 w {own} :5 w {token} :7 w {token} :9 w {token}");
    let name = "a reader and a writer are renewed, gone twice, another kind";
    let renew = "rwlock/renew";
    bed.call(name, renew, "m o n q p", &format!("by {renewals}"));
    bed.call("late", renew, "m o n q p", &format!("past {renewals}"));
    let after = format!("w a1:1 {own} after 600000");
    bed.run("rwlock/force", &self::keys("o"), &after);
    let bad = format!("by a1 30000 630000 :1 w {own} :5 w 1700000000000001");
    bed.call("revoked, taken", renew, "o n", &bad);
    let name = "a read hold, both attempts of a write hold, an unknown hold, and no hash";
    let keys = ["m", "o", "o", "n", "s"].map(self::keys).join(" ");
    let ends = format!(
        "a1 600000 :3 :4 - - r {serial} :1 :2 - - w {own} :1 :12 - - w {own} :9 :10 - - w {token} \
         :9 :10 - - r {token}"
    );
    bed.call(name, release, &keys, &ends);
    bed.pass(30_000);
    let over = format!("by b2 30000 630000 :1 w {token}");
    bed.call("expired", renew, "n", &over);
}

/// Returns the keys of one lock.
fn keys(name: &str) -> String {
    KEYS.replace('n', name)
}

fn first_line(item: &str) -> String {
    item.split('\n').next().unwrap_or_default().to_owned()
}
