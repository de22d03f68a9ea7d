//! The waiters of a read-write lock.

use super::rwlock;
use crate::Bed;

/// `reads`, `writes` and `ordered` register: the last one with an order.
const WORDS: &str = "
    define reads rwlock/read($n) by $1 30000 630000 :$2 :$3 5000 @$1:$3 r
    define writes rwlock/write($n) by $1 30000 630000 :$2 :$3 5000 @$1:$3 -
    define ordered rwlock/write($n) by $1 30000 630000 :$2 :$3 5000 \
        @$1:$3:$2:g30000.630000.0000000000000$1$3 -";

pub(super) fn batch(bed: &mut Bed) {
    bed.play(rwlock::WORDS);
    bed.play(WORDS);
    bed.play(
        "write a1 1 2 - -> _ granted _ $token
        writes b2 1 2 | busy, a writer waits for the writer
        reads c3 1 2 | busy, a reader waits for the writer
        reads d4 1 2 | busy, a second reader waits
        release a1 1 2 w $token | a write ends, and all waiting readers are told
        writes b2 1 2 | busy, the readers of the batch go first
        reads c3 1 2 | a reader of the batch is granted -> _ granted _ _ _ _ $first
        read e5 1 2 r | busy, a newcomer is behind the waiting writer
        reads d4 1 2 | the last reader of the batch is granted -> _ granted _ _ _ _ $second
        release c3 1 2 r $first | a reader leaves, others stay
        release d4 1 2 r $second | the last reader leaves, and the writer is notified
        withdraw list redlatch:w:b2 | the entries of a client
        writes b2 1 2 | the notified writer is granted -> _ granted _ $token
        writes c3 3 4 | busy, the next writer waits
        withdraw strike redlatch:w:c3 4 | an entry is removed
        reads a1 3 4 | busy, a reader waits for the second writer
        downgrade b2:1 b2:3 b2:2 $token | \
            the writer becomes a reader, and the waiting readers are told",
    );
}

/// Writers with an order, to whom a release grants.
pub(super) fn granted_ahead(bed: &mut Bed) {
    bed.play(rwlock::WORDS);
    bed.play(WORDS);
    bed.play(
        "write a1 1 2 - -> _ granted _ $token
        ordered b2 1 2 | busy, the first writer with an order
        ordered c3 1 2 | busy, a writer with an order
        ordered c3 3 4 | busy, a second writer of its client
        writes d4 1 2 | busy, a writer without an order
        release a1 1 2 w $token | a write ends, and the next writer has the lock \
            -> _ _ _ _ granted b2:2 _.$next._
        release a1 1 2 w $token | already
        renew b2 w $next | the first renewal confirms
        force w - $next now | a forced end gives it to the next
        ordered c3 3 4 | a hold that nobody has confirmed is told to a waiter of its client \
            -> _ busy _ _ 2
        withdraw list redlatch:w:c3 | such a hold is listed
        withdraw strike redlatch:w:c3 2 | \
            such a hold is ended, and the next writer learns of the forced one
        release c3 3 4 w - | an undo ends one, and the writer without an order is notified
        writes d4 1 2 | it is granted, and learns of the forced one",
    );
}

pub(super) fn dead(bed: &mut Bed) {
    bed.play(rwlock::WORDS);
    bed.play(WORDS);
    bed.play("read a1 1 2 r");
    for (at, waits) in ["reads", "writes"].into_iter().enumerate() {
        for n in 1_700_000_000_000_001_u64..=1_700_000_000_000_065 {
            bed.play(&format!("ZADD %n:q {n} @b2:{}", n % 1_000));
        }
        if at == 0 {
            bed.play(
                "PEXPIRE %n:q 9000
                ZADD %n:l past redlatch:w:b2
                PEXPIRE %n:l 9000
                HSET %n n soon",
            );
        }
        bed.play(&format!(
            "{waits} c3 1 2 | more, since dead waiters are left -> _ more"
        ));
    }
}
