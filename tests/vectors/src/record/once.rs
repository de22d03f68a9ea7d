//! The scripts of jobs that run once per slot.

use super::{before_2001, refused};
use crate::Bed;

/// `first` claims the slot that begins first, and `next` the one behind it, for three attempts.
/// `keyed` claims a keyed slot, and `end` ends a claim with an outcome and a reason.
const WORDS: &str = "
    define claim once/claim(n)
    define first once/claim(n) by $1:1 $1:2 30000 1209600000 1700000000000 $2 \
        1700000000000 1700000060000 3 host-$1 -
    define next once/claim(n) by $1:1 $1:2 30000 1209600000 1700000060000 $2 \
        1700000060000 1700000120000 3 host-$1 -
    define keyed once/claim(n) by a1:1 $1 30000 1209600000 $2 $3 - - 3 host-a1 86400000
    define end once/release(n) $1:1 $1:2 - 1209600000 600000 $2 $3 $4 -
    define release once/release(n)
    define renew once/renew(n)
    define reset once/reset(n)
    define look once/look(n)";

pub(super) fn slots(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "look - | nothing is known
        reset by a1:9 ~0 - | unset
        first a1 ~0 | the first attempt at a slot -> _ granted _ $token
        first a1 ~0 | a copy of a granted claim
        first b2 ~0 | busy
        pass 1000
        renew by a1:1 30000 1209600000 $token | renewed
        look - | a run is under way
        end a1 $token done - | done
        end a1 $token done - | already
        first b2 ~0 | moved, the state is not what the caller saw
        first b2 $token~0 | moved, the slot is done
        next b2 $token~0 | moved, the slot has not begun
        pass 60000
        next b2 $token~0 | the next slot -> _ granted _ $failing
        renew by a1:1 30000 1209600000 $token | taken
        release a1:1 a1:3 - 1209600000 600000 1700000000000001 done - - | taken
        end b2 $failing failed no~disk | failed, with the reason
        next c3 $failing~0 | the second attempt at a slot -> _ granted _ $lost
        pass 30001
        renew by c3:1 30000 1209600000 $lost | expired
        next d4 $lost~1 | the third attempt, after one that was lost -> _ granted _ $third
        pass 30001
        end d4 $third overran - | expired, the outcome is recorded all the same
        pass 21
        claim by e5:1 e5:2 30000 1209600000 1700000060000 $third~0 - - 3 host-e5 - | \
            moved, the slot has no attempt left
        reset by a1:9 ~0 - | moved
        reset by a1:9 $third~0 - | the records are forgotten
        reset by a1:9 $third~0 - | a copy of a reset
        look - | after a reset",
    );
}

pub(super) fn keyed(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "keyed a1:2 =x ~0 | a keyed slot -> _ granted _ $token
        look =x | a keyed slot under way
        release a1:1 a1:2 - 1209600000 600000 $token done - 86400000 | a keyed slot is done
        look =x | a keyed slot that is done
        keyed a1:3 =x $token~0 | moved, the keyed slot is done
        keyed a1:4 =y $token~0 -> _ granted _ $second
        release a1:1 a1:4 by 1209600000 600000 $second - - 86400000 | \
            a run that never began does not count, and its copies are refused
        keyed a1:4 =y $second~0 | void
        HSET %n y 1~1000~1000
        keyed a1:5 =z $second~0 | full, set by hand",
    );
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "release a1:1 a1:2 - 1209600000 600000 1700000000000000 done - - | gone
        renew by a1:1 30000 1209600000 1700000000000000 | gone
        HSET %n k other:1",
    );
    let calls = [
        "claim by a1:1 a1:2 30000 1209600000 1700000000000 ~0 - - 3 host-a1 -",
        "renew by a1:1 30000 1209600000 17",
        "reset by a1:9 ~0 -",
    ];
    refused(bed, &calls);
    bed.play(
        "release a1:1 a1:2 - 1209600000 600000 1700000000000000 done - - | another kind
        look - | another kind",
    );
    before_2001(bed, &calls);
}
