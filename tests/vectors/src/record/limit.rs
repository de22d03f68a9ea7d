//! The scripts of the rate limiter.

use super::{before_2001, refused};
use crate::Bed;

const WORDS: &str = "
    define acquire limit/acquire(n)
    define settle limit/settle(n)
    define look limit/look(n)";

pub(super) fn passes(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "look | free
        acquire by a1 30000 :1 3 7000000 5 2 1 0 | 2 of 5 tokens -> _ _ _ _ _ _ $first $born
        acquire by a1 30000 :1 3 7000000 5 2 1 0 | a copy takes nothing
        acquire by b2 30000 :1 3 7000000 5 1 64 0 | 3 of 64 passes
        acquire by b2 30000 :2 3 7000000 5 1 1 0 | refused
        acquire by b2 30000 :1 3 7000000 5 1 64 0 | void
        acquire by b2 30000 :3 3 7000000 5 5 1 60000000 | taken ahead
        acquire by b2 30000 :3 3 7000000 5 5 1 60000000 | a copy of that
        settle by a1 30000 :2 3 7000000 2 -2 $first $born | nothing is given back before that counts
        settle by a1 30000 :2 3 7000000 2 -2 $first $born | a copy
        look | what is owed
        pass 28000
        acquire by a1 30000 :3 3 7000000 5 5 1 0 | all 5 -> _ _ _ _ _ _ $all $born_later
        settle by a1 30000 :4 3 7000000 5 -4 $all $born_later | 4 are given back
        settle by a1 30000 :5 3 7000000 2 -1 $first $born | nothing: it was paid
        settle by a1 30000 :6 3 7000000 5 3 $all $born_later | 3 are added
        acquire by a1 30000 :7 1 1000000 5 1 1 0 | another rate keeps the tokens that are owed
        settle by a1 30000 :8 1 1000000 5 -1 $all $born_later | nothing: the rate has changed
        settle by a1 30000 :9 1 1000000 5 -5 - - | nothing without a mark
        settle by a1 30000 :7 1 1000000 5 -5 - - | void
        pass 60000
        look | free: it has expired",
    );
}

pub(super) fn lists(bed: &mut Bed) {
    bed.play(
        "HSET %m k other:1
        limit/acquire(n o) by a1 30000 :1 1 1000 1 1 1 0 :2 1 1000 1 1 1 0 | two names
        limit/acquire(n m o) by a1 30000 :3 1 1000 1 1 1 0 :4 1 1000 1 1 1 0 :5 1 1000 1 1 1 0 | \
            one of three is of another kind
        limit/settle(n o) by a1 30000 :6 1 1000 1 1 - - :7 1 1000 1 1 - - | two names
        SET %r text
        limit/acquire(n r) by a1 30000 :8 1 1000 1 1 1 0 :9 1 1000 1 1 1 0 | one is no hash
        limit/settle(n r) by a1 30000 :10 1 1000 1 1 - - :11 1 1000 1 1 - - | one is no hash",
    );
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play("HSET %n k other:1");
    let calls = [
        "acquire by a1 30000 :1 1 1000 1 1 1 0",
        "settle by a1 30000 :2 1 1000 1 1 - -",
    ];
    refused(bed, &calls);
    bed.play("look | another kind");
    before_2001(bed, &calls);
}
