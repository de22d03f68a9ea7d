//! The scripts of the fence.

use super::{before_2001, refused};
use crate::Bed;

/// With the data, the mark and the operations as keys.
const WORDS: &str = "
    define look fence/look(n:f)
    define set fence/set(=data n:f n:fo)
    define hset fence/hset(=data n:f n:fo)
    define delete fence/delete(=data n:f n:fo)
    define raise fence/raise(=data n:f n:fo)
    define eval fence/eval(=data n:f n:fo)
    define reset fence/reset(=data n:f n:fo)";

pub(super) fn writes(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "look | nobody has written
        set by a1:1 1700000000000005 30000 - one - | the first write
        set by a1:1 1700000000000005 30000 - one - | a copy of a write
        look | the mark
        set by a1:2 1700000000000005 30000 600000 two 60000 | \
            an equal token, data and mark with an end
        set by b2:1 1700000000000004 30000 - three - | fenced
        set by b2:1 1700000000000004 30000 - three - | a copy that was refused
        delete by a1:3 1700000000000006 30000 - | deleted
        delete by a1:3 1700000000000006 30000 - | already
        hset by a1:4 1700000000000007 30000 - x 1 y 2 | two fields
        hset by a1:4 1700000000000007 30000 - x 1 y 2 | already
        raise by a1:5 1700000000000009 30000 - | the mark alone
        raise by a1:5 1700000000000009 30000 - | already
        hset by b2:910 1700000000000008 30000 - x 1 | fenced
        delete by b2:912 1700000000000008 30000 - x 1 | fenced
        raise by b2:911 1700000000000008 30000 - x 1 | fenced
        eval by b2:910 1700000000000008 30000 - x 1 | fenced
        eval by a1:6 1700000000000009 30000 - | failed: the body reads a string where a hash is
        eval by a1:6 1700000000000009 30000 - | already, the failed body has run
        delete by a1:7 1700000000000009 30000 -
        set by a1:8 1700000000000009 30000 - four -
        eval by a1:9 1700000000000010 30000 - | written, with the reply of the body
        pass 31000
        reset by a1:10 30000 | the mark is removed
        reset by a1:10 30000 | already
        reset by a1:11 30000 | there is no mark",
    );
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play("HSET %n:f k other:1");
    let calls = [
        "set by a1:1 1700000000000005 30000 - one -",
        "hset by a1:1 1700000000000005 30000 - x 1",
        "delete by a1:1 1700000000000005 30000 -",
        "raise by a1:1 1700000000000005 30000 -",
        "eval by a1:1 1700000000000005 30000 -",
        "reset by a1:1 30000",
    ];
    refused(bed, &calls);
    bed.play("look | another kind");
    before_2001(bed, &calls);
}
