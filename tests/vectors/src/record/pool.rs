//! The permits of a pool.

use crate::Bed;

/// K, D, Q, L.
pub(super) const KEYS: &str = "n n:d n:q n:l";
/// The same, and what operations have run.
const CHANGE: &str = "n n:d n:q n:l n:o n:p";

const ACQUIRE: &str = "pool/acquire";
const RELEASE: &str = "pool/release";
const RENEW: &str = "pool/renew";

pub(super) fn holds(bed: &mut Bed) {
    bed.call(
        "unset",
        ACQUIRE,
        KEYS,
        "by a1 semaphore:1 30000 :1 1 - - - -",
    );
    bed.call("unset", "pool/inspect", KEYS, "semaphore:1 -");
    bed.call("the default size", "pool/inspect", KEYS, "semaphore:1 3");
    bed.call(
        "large",
        ACQUIRE,
        KEYS,
        "by a1 semaphore:1 30000 :1 4 3 - - -",
    );
    let two = "by a1 semaphore:1 30000 :2 2 3 - - -";
    bed.call("two permits as one hold", ACQUIRE, KEYS, two);
    bed.pass(10);
    bed.call("a copy of a granted request", ACQUIRE, KEYS, two);
    bed.call(
        "busy, without registering",
        ACQUIRE,
        KEYS,
        "by b2 semaphore:1 30000 :1 2 3 - - -",
    );
    bed.call(
        "one permit with an id",
        ACQUIRE,
        KEYS,
        "by b2 semaphore:1 30000 :2 1 3 - - 1",
    );
    bed.pass(1000);
    bed.call(
        "renewed, and gone",
        RENEW,
        "n n",
        "by a1 semaphore:1 30000 :2 :9",
    );
    bed.call(
        "two holds, and an unknown one",
        "pool/look",
        "n",
        "semaphore:1 a1:2 b2:2:0 a1:9",
    );
    bed.call("all holds", "pool/holds", "n n:d", "semaphore:1 0 256");
    bed.call(
        "the size, and the permits out",
        "pool/inspect",
        KEYS,
        "semaphore:1 3",
    );
    let part = "a1 semaphore:1 600000 - - - 1 0 :2";
    bed.call("one of two permits is released", RELEASE, KEYS, part);
    bed.call("already", RELEASE, KEYS, part);
    bed.call(
        "released, and gone",
        RELEASE,
        KEYS,
        "a1 semaphore:1 600000 - - - 0 0 :2~:9",
    );
    let forget = "b2 semaphore:1 600000 - - - 0 1 :2:0";
    bed.call("a forgotten permit shrinks the size", RELEASE, KEYS, forget);
    let undo = "a1 semaphore:1 600000 :3 by - 0 0 :3";
    bed.call(
        "an undo ends an attempt that never ran",
        RELEASE,
        KEYS,
        undo,
    );
    bed.call(
        "void",
        ACQUIRE,
        KEYS,
        "by a1 semaphore:1 30000 :3 1 3 - - -",
    );
    bed.call(
        "granted, a later attempt",
        ACQUIRE,
        KEYS,
        "by a1 semaphore:1 30000 :4 2 3 - - -",
    );
    bed.pass(30_000);
    bed.call("expired", RENEW, "n", "by a1 semaphore:1 30000 :4");
    let name = "granted, after expired holds were removed";
    bed.call(name, ACQUIRE, KEYS, "by b2 semaphore:1 30000 :3 2 3 - - -");
    bed.pass(30_000);
    bed.call(
        "expired",
        RELEASE,
        KEYS,
        "b2 semaphore:1 600000 - - - 0 0 :3",
    );
}

/// Other kinds, and calls that come late.
pub(super) fn refusals(bed: &mut Bed) {
    bed.put("HSET %n k other:1");
    for (script, keys, args) in [
        (ACQUIRE, KEYS, "by a1 semaphore:1 30000 :1 1 3 - - -"),
        (RENEW, "n", "by a1 semaphore:1 30000 :1"),
        (RELEASE, KEYS, "a1 semaphore:1 600000 - - - 0 0 :1"),
        ("pool/inspect", KEYS, "semaphore:1 3"),
        ("pool/holds", "n n:d", "semaphore:1 0 256"),
        ("pool/look", "n", "semaphore:1 a1:1"),
        ("pool/withdraw", KEYS, "list redlatch:w:a1 semaphore:1"),
        ("pool/change", CHANGE, "by semaphore:1 a1:1 30000 set 3 -"),
    ] {
        bed.call("another kind", script, keys, args);
        if let Some(args) = args.strip_prefix("by") {
            bed.call("late", script, keys, &format!("past{args}"));
        }
    }
}

pub(super) fn changes(bed: &mut Bed) {
    let mut ops = 0;
    let mut change = |bed: &mut Bed, name: &str, what: &str| {
        ops += 1;
        let args = format!("by semaphore:1 a1:{ops} 30000 {what}");
        bed.call(name, "pool/change", CHANGE, &args);
        args
    };
    change(bed, "unset, nothing to add to", "add 1 -");
    change(bed, "set where nothing is set", "try 3 -");
    change(bed, "try finds it set", "try 5 -");
    let args = change(bed, "more permits", "add 2 -");
    bed.call("a copy of a change", "pool/change", CHANGE, &args);
    change(bed, "below", "add -6 -");
    change(bed, "above", "add 4294967295 -");
    bed.run(ACQUIRE, KEYS, "by b2 semaphore:1 30000 :1 2 - - - -");
    change(bed, "set, with an end", "set 4 60000");
    change(bed, "drained", "drain 0 -");
    change(bed, "set again, without an end", "set 6 0");
    change(bed, "deleted", "delete 0 -");
    bed.set_micros(999_999_999_999_999);
    change(bed, "a clock before 2001", "set 1 -");
    bed.call(
        "a clock before 2001",
        ACQUIRE,
        KEYS,
        "by a1 semaphore:1 30000 :1 1 3 - - -",
    );
}

/// Calls with several entries.
pub(super) fn merged(bed: &mut Bed) {
    let keys = format!("{KEYS} {KEYS} m m:d m:q m:l");
    let args = "a1 semaphore:1 30000 :1 1 2 - - - :2 2 2 - - - :3 1 2 - - 1";
    let name = "two of three: the second finds too few permits";
    bed.call(name, ACQUIRE, &keys, &format!("by {args}"));
    bed.call("late", ACQUIRE, &keys, &format!("past {args}"));
    let name = "copies of two, and a third that has ended";
    bed.call(name, ACQUIRE, &keys, &format!("by {args}"));
    bed.pass(1000);
    bed.put("HSET %p k other:1");
    let args = "a1 semaphore:1 30000 :1 :3:0 :9 :1";
    bed.call(
        "renewed twice, gone, another kind",
        RENEW,
        "n m n p",
        &format!("by {args}"),
    );
    bed.call("late", RENEW, "n m n p", &format!("past {args}"));
    let keys = format!("{KEYS} m m:d m:q m:l");
    let name = "one hold, and one that is unknown";
    let args = "a1 semaphore:1 600000 - - - 0 0 :1 - - - 0 0 :9";
    bed.call(name, RELEASE, &keys, args);
    bed.pass(40_000);
    bed.call("expired", RENEW, "m", "by a1 semaphore:1 30000 :3:0");
    bed.put("SET %w 1");
    let keys = format!("{KEYS} w w:d w:q w:l");
    let name = "one, and the error of another";
    let args = "by a1 semaphore:1 30000 :4 1 2 - - - :5 1 2 - - -";
    bed.call(name, ACQUIRE, &keys, args);
    let args = "a1 semaphore:1 600000 - - - 0 0 :4 - - - 0 0 :5";
    bed.call(name, RELEASE, &keys, args);
}

/// Pools with an end, and more to remove than one call removes.
pub(super) fn expiring(bed: &mut Bed) {
    let set = "by semaphore:1 a1:1 30000 set 65 60000";
    bed.run("pool/change", CHANGE, set);
    bed.pass(40_000);
    let granted = "by a1 semaphore:1 30000 :2 1 - - - -";
    bed.call("granted until the end of the pool", ACQUIRE, KEYS, granted);
    bed.call(
        "renewed until the end of the pool",
        RENEW,
        "n",
        "by a1 semaphore:1 30000 :2",
    );
    bed.clear();
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :3 65 65 - - 1");
    bed.pass(30_001);
    let drain = "by semaphore:1 a1:4 30000 drain 0 -";
    bed.call("more", "pool/change", CHANGE, drain);
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :5 64 65 - - 1");
    bed.pass(30_001);
    bed.call("more", "pool/inspect", KEYS, "semaphore:1 65");
    bed.clear();
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :6 65 65 - - 1");
    bed.pass(30_001);
    bed.call(
        "more",
        ACQUIRE,
        KEYS,
        "by a1 semaphore:1 30000 :7 65 65 - - -",
    );
}
