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
        "by semaphore:1 a1:1 1 30000 - - - -",
    );
    bed.call("unset", "pool/inspect", KEYS, "semaphore:1 -");
    bed.call("the default size", "pool/inspect", KEYS, "semaphore:1 3");
    bed.call(
        "large",
        ACQUIRE,
        KEYS,
        "by semaphore:1 a1:1 4 30000 3 - - -",
    );
    let two = "by semaphore:1 a1:2 2 30000 3 - - -";
    bed.call("two permits as one hold", ACQUIRE, KEYS, two);
    bed.pass(10);
    bed.call("a copy of a granted request", ACQUIRE, KEYS, two);
    bed.call(
        "busy, without registering",
        ACQUIRE,
        KEYS,
        "by semaphore:1 b2:1 2 30000 3 - - -",
    );
    bed.call(
        "one permit with an id",
        ACQUIRE,
        KEYS,
        "by semaphore:1 b2:2 1 30000 3 - - 1",
    );
    bed.pass(1000);
    bed.call(
        "renewed, and gone",
        RENEW,
        "n",
        "by semaphore:1 30000 a1:2 a1:9",
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
    let part = "semaphore:1 - - 600000 - 1 0 a1:2";
    bed.call("one of two permits is released", RELEASE, KEYS, part);
    bed.call("already", RELEASE, KEYS, part);
    bed.call(
        "released, and gone",
        RELEASE,
        KEYS,
        "semaphore:1 - - 600000 - 0 0 a1:2 a1:9",
    );
    let forget = "semaphore:1 - - 600000 - 0 1 b2:2:0";
    bed.call("a forgotten permit shrinks the size", RELEASE, KEYS, forget);
    let undo = "semaphore:1 a1:3 by 600000 - 0 0 a1:3";
    bed.call(
        "an undo ends an attempt that never ran",
        RELEASE,
        KEYS,
        undo,
    );
    bed.call("void", ACQUIRE, KEYS, "by semaphore:1 a1:3 1 30000 3 - - -");
    bed.call(
        "granted, a later attempt",
        ACQUIRE,
        KEYS,
        "by semaphore:1 a1:4 2 30000 3 - - -",
    );
    bed.pass(30_000);
    bed.call("expired", RENEW, "n", "by semaphore:1 30000 a1:4");
    let name = "granted, after expired holds were removed";
    bed.call(name, ACQUIRE, KEYS, "by semaphore:1 b2:3 2 30000 3 - - -");
    bed.pass(30_000);
    bed.call(
        "expired",
        RELEASE,
        KEYS,
        "semaphore:1 - - 600000 - 0 0 b2:3",
    );
}

/// Other kinds, and calls that come late.
pub(super) fn refusals(bed: &mut Bed) {
    bed.put("HSET %n k other:1");
    for (script, keys, args) in [
        (ACQUIRE, KEYS, "by semaphore:1 a1:1 1 30000 3 - - -"),
        (RENEW, "n", "by semaphore:1 30000 a1:1"),
        (RELEASE, KEYS, "semaphore:1 - - 600000 - 0 0 a1:1"),
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
    bed.run(ACQUIRE, KEYS, "by semaphore:1 b2:1 2 30000 - - - -");
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
        "by semaphore:1 a1:1 1 30000 3 - - -",
    );
    let each = "by a1 semaphore:1 30000 :1 1 3 -";
    bed.call("a clock before 2001", "pool/acquire_each", "n n:d", each);
    let some = "by a1 semaphore:1 30000 5000 :1 1 @a1:1:1 -";
    bed.call("a clock before 2001", "pool/acquire_some", KEYS, some);
}

pub(super) fn merged(bed: &mut Bed) {
    let (acquire, release, renew) = ("pool/acquire_each", "pool/release_each", "pool/renew_each");
    let keys = "n n:d n n:d m m:d";
    let args = "a1 semaphore:1 30000 :1 1 2 - :2 2 2 - :3 1 2 1";
    let name = "two of three: the second finds too few permits and is left as it is";
    bed.call(name, acquire, keys, &format!("by {args}"));
    bed.call("late", acquire, keys, &format!("past {args}"));
    bed.pass(1000);
    bed.put("HSET %p k other:1");
    let args = "a1 semaphore:1 30000 :1 :3:0 :9 :1";
    bed.call(
        "renewed twice, gone, another kind",
        renew,
        "n m n p",
        &format!("by {args}"),
    );
    bed.call("late", renew, "n m n p", &format!("past {args}"));
    let name = "one hold, and one that is unknown and left as it is";
    bed.call(name, release, "n n:d m m:d", "a1 semaphore:1 :1 :9");
    bed.pass(40_000);
    bed.call("expired", renew, "m", "by a1 semaphore:1 30000 :3:0");
}

/// Pools with an end, and more to remove than one call removes.
pub(super) fn expiring(bed: &mut Bed) {
    let set = "by semaphore:1 a1:1 30000 set 65 60000";
    bed.run("pool/change", CHANGE, set);
    bed.pass(40_000);
    let granted = "by semaphore:1 a1:2 1 30000 - - - -";
    bed.call("granted until the end of the pool", ACQUIRE, KEYS, granted);
    bed.call(
        "renewed until the end of the pool",
        RENEW,
        "n",
        "by semaphore:1 30000 a1:2",
    );
    let each = "by a1 semaphore:1 30000 :2";
    bed.call(
        "renewed until the end of the pool",
        "pool/renew_each",
        "n",
        each,
    );
    bed.clear();
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:3 65 30000 65 - - 1");
    bed.pass(30_001);
    let drain = "by semaphore:1 a1:4 30000 drain 0 -";
    bed.call("more", "pool/change", CHANGE, drain);
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:5 64 30000 65 - - 1");
    bed.pass(30_001);
    bed.call("more", "pool/inspect", KEYS, "semaphore:1 65");
    bed.clear();
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:6 65 30000 65 - - 1");
    bed.pass(30_001);
    bed.call(
        "more",
        ACQUIRE,
        KEYS,
        "by semaphore:1 a1:7 65 30000 65 - - -",
    );
}
