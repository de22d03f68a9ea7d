//! The permits of a pool.

use super::refused;
use crate::Bed;

/// With `K`, `D`, `Q` and `L` as `$n`, and as `$m` for another name.
pub(super) const WORDS: &str = "
    define n n n:d n:q n:l
    define m m m:d m:q m:l
    define w w w:d w:q w:l
    define acquire pool/acquire($n) by $1 semaphore:1 30000 :$2 $3 $4 - - $5
    define release pool/release($n)
    define inspect pool/inspect($n)
    define renew pool/renew(n)
    define change pool/change($n n:o n:p) by semaphore:1 $1 30000 $2 $3 $4";

pub(super) fn holds(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "acquire a1 1 1 - - | unset
        inspect semaphore:1 - | unset
        inspect semaphore:1 3 | the default size
        acquire a1 1 4 3 - | large
        acquire a1 2 2 3 - | two permits as one hold
        pass 10
        acquire a1 2 2 3 - | a copy of a granted request
        acquire b2 1 2 3 - | busy, without registering
        acquire b2 2 1 3 1 | one permit with an id
        pass 1000
        pool/renew(n n) by a1 semaphore:1 30000 :2 :9 | renewed, and gone
        pool/look(n) semaphore:1 a1:2 b2:2:0 a1:9 | two holds, and an unknown one
        pool/holds(n n:d) semaphore:1 0 256 | all holds
        inspect semaphore:1 3 | the size, and the permits out
        release a1 semaphore:1 600000 - - - 1 0 :2 | one of two permits is released
        release a1 semaphore:1 600000 - - - 1 0 :2 | already
        release a1 semaphore:1 600000 - - - 0 0 :2~:9 | released, and gone
        release b2 semaphore:1 600000 - - - 0 1 :2:0 | a forgotten permit shrinks the size
        release a1 semaphore:1 600000 :3 by - 0 0 :3 | an undo ends an attempt that never ran
        acquire a1 3 1 3 - | void
        acquire a1 4 2 3 - | granted, a later attempt
        pass 30000
        renew by a1 semaphore:1 30000 :4 | expired
        acquire b2 3 2 3 - | granted, after expired holds were removed
        pass 30000
        release b2 semaphore:1 600000 - - - 0 0 :3 | expired",
    );
}

/// Other kinds, and calls that come late.
pub(super) fn refusals(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "HSET %n k other:1
        release a1 semaphore:1 600000 - - - 0 0 :1 | another kind
        inspect semaphore:1 3 | another kind
        pool/holds(n n:d) semaphore:1 0 256 | another kind
        pool/look(n) semaphore:1 a1:1 | another kind
        pool/withdraw($n) list redlatch:w:a1 semaphore:1 | another kind",
    );
    let calls = [
        "pool/acquire($n) by a1 semaphore:1 30000 :1 1 3 - - -",
        "pool/renew(n) by a1 semaphore:1 30000 :1",
        "pool/change($n n:o n:p) by semaphore:1 a1:1 30000 set 3 -",
    ];
    refused(bed, &calls);
}

pub(super) fn changes(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "change a1:1 add 1 - | unset, nothing to add to
        change a1:2 try 3 - | set where nothing is set
        change a1:3 try 5 - | try finds it set
        change a1:4 add 2 - | more permits
        change a1:4 add 2 - | a copy of a change
        change a1:5 add -6 - | below
        change a1:6 add 4294967295 - | above
        acquire b2 1 2 - -
        change a1:7 set 4 60000 | set, with an end
        change a1:8 drain 0 - | drained
        change a1:9 set 6 0 | set again, without an end
        change a1:10 delete 0 - | deleted
        clock 999999999999999
        change a1:11 set 1 - | a clock before 2001
        acquire a1 1 1 3 - | a clock before 2001",
    );
}

/// Calls with several entries.
pub(super) fn merged(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "define three pool/acquire($n $n $m) $1 a1 semaphore:1 30000 \
            :1 1 2 - - - :2 2 2 - - - :3 1 2 - - 1
        three by | two of three: the second finds too few permits
        three past | late
        three by | copies of two, and a third that has ended
        pass 1000
        HSET %p k other:1
        define four pool/renew(n m n p) $1 a1 semaphore:1 30000 :1 :3:0 :9 :1
        four by | renewed twice, gone, another kind
        four past | late
        pool/release($n $m) a1 semaphore:1 600000 - - - 0 0 :1 - - - 0 0 :9 | \
            one hold, and one that is unknown
        pass 40000
        pool/renew(m) by a1 semaphore:1 30000 :3:0 | expired
        SET %w 1
        pool/acquire($n $w) by a1 semaphore:1 30000 :4 1 2 - - - :5 1 2 - - - | \
            one, and the error of another
        pool/release($n $w) a1 semaphore:1 600000 - - - 0 0 :4 - - - 0 0 :5 | \
            one, and the error of another",
    );
}

/// Pools with an end, and more to remove than one call removes.
pub(super) fn expiring(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "change a1:1 set 65 60000
        pass 40000
        acquire a1 2 1 - - | granted until the end of the pool
        renew by a1 semaphore:1 30000 :2 | renewed until the end of the pool
        clear
        acquire a1 3 65 65 1
        pass 30001
        change a1:4 drain 0 - | more
        acquire a1 5 64 65 1
        pass 30001
        inspect semaphore:1 65 | more
        clear
        acquire a1 6 65 65 1
        pass 30001
        acquire a1 7 65 65 - | more",
    );
}
