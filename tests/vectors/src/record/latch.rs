//! The scripts of the latch.

use super::{before_2001, refused};
use crate::Bed;

const WORDS: &str = "
    define look latch/look(n)
    define set latch/set(n n:o)
    define count latch/count_down(n n:o)
    define delete latch/delete(n n:o)";

pub(super) fn life(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "look 1700000000000000 | nobody has set it
        set by a1:1 2 - 30000 | set to 2 -> _ _ $first
        set by a1:1 2 - 30000 | a copy of the setting
        set by b2:1 5 - 30000 | refused, since it is shut
        set by b2:1 5 - 30000 | a copy of the refused setting
        pass 5
        count by a1:2 1 30000 PUBLISH %n:b | counted
        count by a1:2 1 30000 PUBLISH %n:b | a copy counts once
        look $first | shut
        count by a1:3 9 30000 PUBLISH %n:b | counted, and opens
        pass 5
        count by a1:4 1 30000 PUBLISH %n:b | counted, an open latch
        look $first | open
        pass 5
        set by a1:5 3 60000 30000 | set again, with an end -> _ _ $second
        count by a1:2 1 30000 PUBLISH %n:b | \
            counted, a copy of a count in a generation that opened before
        look $first $second 1700000000000000 | three generations: open, shut, unknown
        count by a1:6 1 30000 PUBLISH %n:b
        delete by a1:7 30000 600000 PUBLISH %n:b | deleted, and tells its waiters
        delete by a1:7 30000 600000 PUBLISH %n:b | a copy of the deletion
        count by a1:6 1 30000 PUBLISH %n:b | \
            deleted, a copy of a count in a generation that never opened
        look $second | the deleted generation
        count by a1:8 1 30000 PUBLISH %n:b | unset
        count by a1:8 1 30000 PUBLISH %n:b | a copy that was refused
        delete by a1:9 30000 600000 PUBLISH %n:b | unset
        pass 31000
        set by a1:10 0 - 30000 | set, and forgets old operations
        delete by a1:11 30000 600000 PUBLISH %n:b | deleted while open: no message",
    );
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play("HSET %n k other:1");
    let calls = [
        "set by a1:1 2 - 30000",
        "count by a1:2 1 30000 PUBLISH %n:b",
        "delete by a1:3 30000 600000 PUBLISH %n:b",
    ];
    refused(bed, &calls);
    bed.play("look | another kind");
    before_2001(bed, &calls);
}
