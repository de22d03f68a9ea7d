//! The scripts of the latch.

use crate::Bed;

pub(super) fn life(bed: &mut Bed) {
    let (set, count_down, delete, look) = (
        "latch/set",
        "latch/count_down",
        "latch/delete",
        "latch/look",
    );
    bed.call("nobody has set it", look, "n", "1700000000000000");
    let first = bed.call("set to 2", set, "n n:o", "by a1:1 2 - 30000");
    let first = first[2].clone();
    bed.call("a copy of the setting", set, "n n:o", "by a1:1 2 - 30000");
    bed.call(
        "refused, since it is shut",
        set,
        "n n:o",
        "by b2:1 5 - 30000",
    );
    bed.call(
        "a copy of the refused setting",
        set,
        "n n:o",
        "by b2:1 5 - 30000",
    );
    bed.pass(5);
    let count = "by a1:2 1 30000 PUBLISH %n:b";
    bed.call("counted", count_down, "n n:o", count);
    bed.call("a copy counts once", count_down, "n n:o", count);
    bed.call("shut", look, "n", &first);
    let last = "by a1:3 9 30000 PUBLISH %n:b";
    bed.call("counted, and opens", count_down, "n n:o", last);
    bed.pass(5);
    bed.call(
        "counted, an open latch",
        count_down,
        "n n:o",
        "by a1:4 1 30000 PUBLISH %n:b",
    );
    bed.call("open", look, "n", &first);
    bed.pass(5);
    let second = bed.call(
        "set again, with an end",
        set,
        "n n:o",
        "by a1:5 3 60000 30000",
    );
    let second = second[2].clone();
    let name = "counted, a copy of a count in a generation that opened before";
    bed.call(name, count_down, "n n:o", count);
    let three = format!("{first} {second} 1700000000000000");
    bed.call("three generations: open, shut, unknown", look, "n", &three);
    let counted = "by a1:6 1 30000 PUBLISH %n:b";
    bed.run(count_down, "n n:o", counted);
    let gone = "by a1:7 30000 600000 PUBLISH %n:b";
    bed.call("deleted, and tells its waiters", delete, "n n:o", gone);
    bed.call("a copy of the deletion", delete, "n n:o", gone);
    let name = "deleted, a copy of a count in a generation that never opened";
    bed.call(name, count_down, "n n:o", counted);
    bed.call("the deleted generation", look, "n", &second);
    bed.call("unset", count_down, "n n:o", "by a1:8 1 30000 PUBLISH %n:b");
    bed.call(
        "a copy that was refused",
        count_down,
        "n n:o",
        "by a1:8 1 30000 PUBLISH %n:b",
    );
    bed.call(
        "unset",
        delete,
        "n n:o",
        "by a1:9 30000 600000 PUBLISH %n:b",
    );
    bed.pass(31_000);
    bed.call(
        "set, and forgets old operations",
        set,
        "n n:o",
        "by a1:10 0 - 30000",
    );
    bed.call(
        "deleted while open: no message",
        delete,
        "n n:o",
        "by a1:11 30000 600000 PUBLISH %n:b",
    );
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.put("HSET %n k other:1");
    let calls = [
        ("latch/set", "a1:1 2 - 30000"),
        ("latch/count_down", "a1:2 1 30000 PUBLISH %n:b"),
        ("latch/delete", "a1:3 30000 600000 PUBLISH %n:b"),
    ];
    for (script, args) in calls {
        bed.call("another kind", script, "n n:o", &format!("by {args}"));
        bed.call("late", script, "n n:o", &format!("past {args}"));
    }
    bed.call("another kind", "latch/look", "n", "");
    bed.clear();
    bed.set_micros(999_999_999_999_999);
    for (script, args) in calls {
        bed.call(
            "a clock before 2001",
            script,
            "n n:o",
            &format!("by {args}"),
        );
    }
}
