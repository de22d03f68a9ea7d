//! The scripts of the fence.

use crate::Bed;

/// Data, mark, operations.
const KEYS: &str = "=data n:f n:fo";

pub(super) fn writes(bed: &mut Bed) {
    bed.call("nobody has written", "fence/look", "n:f", "");
    let set = "by a1:1 1700000000000005 30000 - one -";
    bed.call("the first write", "fence/set", KEYS, set);
    bed.call("a copy of a write", "fence/set", KEYS, set);
    bed.call("the mark", "fence/look", "n:f", "");
    let ends = "by a1:2 1700000000000005 30000 600000 two 60000";
    bed.call(
        "an equal token, data and mark with an end",
        "fence/set",
        KEYS,
        ends,
    );
    let old = "by b2:1 1700000000000004 30000 - three -";
    bed.call("fenced", "fence/set", KEYS, old);
    bed.call("a copy that was refused", "fence/set", KEYS, old);
    bed.call(
        "deleted",
        "fence/delete",
        KEYS,
        "by a1:3 1700000000000006 30000 -",
    );
    bed.call(
        "already",
        "fence/delete",
        KEYS,
        "by a1:3 1700000000000006 30000 -",
    );
    let fields = "by a1:4 1700000000000007 30000 - x 1 y 2";
    bed.call("two fields", "fence/hset", KEYS, fields);
    bed.call("already", "fence/hset", KEYS, fields);
    bed.call(
        "the mark alone",
        "fence/raise",
        KEYS,
        "by a1:5 1700000000000009 30000 -",
    );
    bed.call(
        "already",
        "fence/raise",
        KEYS,
        "by a1:5 1700000000000009 30000 -",
    );
    for script in ["fence/hset", "fence/delete", "fence/raise", "fence/eval"] {
        let args = format!("by b2:9{} 1700000000000008 30000 - x 1", script.len());
        bed.call("fenced", script, KEYS, &args);
    }
    let body = "by a1:6 1700000000000009 30000 -";
    bed.call(
        "failed: the body reads a string where a hash is",
        "fence/eval",
        KEYS,
        body,
    );
    bed.call("already, the failed body has run", "fence/eval", KEYS, body);
    bed.run("fence/delete", KEYS, "by a1:7 1700000000000009 30000 -");
    bed.run("fence/set", KEYS, "by a1:8 1700000000000009 30000 - four -");
    let body = "by a1:9 1700000000000010 30000 -";
    bed.call(
        "written, with the reply of the body",
        "fence/eval",
        KEYS,
        body,
    );
    bed.pass(31_000);
    bed.call("the mark is removed", "fence/reset", KEYS, "by a1:10 30000");
    bed.call("already", "fence/reset", KEYS, "by a1:10 30000");
    bed.call("there is no mark", "fence/reset", KEYS, "by a1:11 30000");
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.put("HSET %n:f k other:1");
    let calls = [
        ("fence/set", "a1:1 1700000000000005 30000 - one -"),
        ("fence/hset", "a1:1 1700000000000005 30000 - x 1"),
        ("fence/delete", "a1:1 1700000000000005 30000 -"),
        ("fence/raise", "a1:1 1700000000000005 30000 -"),
        ("fence/eval", "a1:1 1700000000000005 30000 -"),
        ("fence/reset", "a1:1 30000"),
    ];
    for (script, args) in calls {
        bed.call("another kind", script, KEYS, &format!("by {args}"));
        bed.call("late", script, KEYS, &format!("past {args}"));
    }
    bed.call("another kind", "fence/look", "n:f", "");
    bed.clear();
    bed.set_micros(999_999_999_999_999);
    for (script, args) in calls {
        bed.call("a clock before 2001", script, KEYS, &format!("by {args}"));
    }
}
