//! The waiters of a pool.

use super::pool;
use crate::Bed;

/// `wait` registers an attempt that needs some of three permits, and has an order if it has any.
const WORDS: &str = "
    define wait pool/acquire($n) by $1 semaphore:1 30000 :$2 $3 3 5000 @$1:$2:$3$4 -
    define withdraw pool/withdraw($n)";

pub(super) fn waiters(bed: &mut Bed) {
    bed.play(pool::WORDS);
    bed.play(WORDS);
    bed.play(
        "acquire a1 1 3 3 -
        wait b2 1 2 | busy, the first in line
        wait b2 2 1 | busy, a second waiter of the same client
        wait c3 1 1 | busy, another client
        release a1 semaphore:1 600000 - - - 1 0 :1 | \
            two permits come back, and the first in line is notified
        wait b2 2 1 | busy, since it is the turn of another waiter of this client
        acquire d4 1 1 3 - | a try does not overtake
        wait b2 1 2 | the notified waiter is granted
        release a1 semaphore:1 600000 - - - 0 0 :1~b2:1 | \
            three permits come back, and two waiters are notified
        wait c3 1 1 | granted, the second in line while the first is called
        withdraw list redlatch:w:b2 semaphore:1 | the entries of a client
        withdraw strike redlatch:w:b2 semaphore:1 2 | an entry is removed
        wait d4 2 1 | granted, and nobody is left in line
        wait e5 1 3 | busy, it needs all
        change a1:9 set 2 - | a smaller size, and who needs more is told
        release e5 semaphore:1 600000 :2 by @e5:2:1 0 0 :2 | a waiter leaves",
    );
}

pub(super) fn dead(bed: &mut Bed) {
    bed.play(pool::WORDS);
    bed.play("define wait pool/acquire($n) by $1 semaphore:1 30000 :$2 1 1 5000 @$1:$2:1 -");
    bed.play("acquire a1 1 1 1 -");
    for n in 1..=65 {
        bed.play(&format!("wait b2 {n}"));
    }
    bed.play(
        "pass 3000
        wait c3 1
        pass 2500
        wait d4 1 | more, since dead waiters are left -> _ more",
    );
}

/// Calls with several entries about one pool that others wait for.
pub(super) fn crowd(bed: &mut Bed) {
    bed.play(pool::WORDS);
    bed.play(WORDS);
    bed.play(
        "define three b2 semaphore:1 30000 \
            :1 1 3 5000 @b2:1:1 - :2 1 3 5000 @b2:2:1 1 :3 4 3 5000 @b2:3:4 -
        define two :4 1 3 5000 @b2:4:1 - :5 1 3 - - -
        acquire a1 1 3 3 -
        pool/acquire($n $n $n) by $three | two are busy and queue, one needs more than the size
        wait c3 1 1
        pool/acquire($n $n $n) past $three | late
        pool/release($n $n) a1 semaphore:1 600000 - - - 0 0 :1 - - - 0 0 :9 | \
            a hold comes back, three waiters are notified, and an unknown hold is gone
        pool/acquire($n $n $n $n $n $n) by $three $two :4 1 3 5000 @b2:4:1 - | \
            granted twice, a waiter and a try behind one of another client, and one twice
        pool/acquire($n $n $n $n $n) by $three $two | \
            copies, a waiter again, and a try that has ended
        pool/release($n $n) b2 semaphore:1 600000 - - - 0 0 :1 - - - 0 0 :2:0 | \
            two holds come back",
    );
}

/// Waiters with an order, to whom a release grants.
pub(super) fn granted_ahead(bed: &mut Bed) {
    bed.play(pool::WORDS);
    bed.play(WORDS);
    bed.play(
        "acquire a1 1 3 3 -
        wait b2 1 2 :g30000.630000.00000000000000b1 | busy, the first waiter with an order
        wait c3 1 1 :g1500.601500.00000000000000c1 | busy, with an order of a short lease
        wait b2 2 1 | busy, without an order
        wait d4 1 1 :g30000.630000.00000000000000d1 | busy, the last waiter with an order
        release a1 semaphore:1 600000 - - - 0 0 :1 | \
            three permits come back, and two waiters have them \
            -> _ _ _ sent granted _ _ granted
        release b2 semaphore:1 600000 :1 - - 0 0 :1 | \
            a waiter without an order is notified, and the next has its permit
        renew by c3 semaphore:1 30000 :1 | the first renewal
        wait d4 2 1 :g30000.630000.00000000000000d2 | \
            a waiter that has just come is told of nothing
        wait d4 2 1 :g30000.630000.00000000000000d2 | \
            a hold that nobody has confirmed is told to a waiter of its client -> _ busy _ 1
        withdraw list redlatch:w:d4 semaphore:1 | a hold that nobody has confirmed is listed
        withdraw strike redlatch:w:d4 semaphore:1 1 | \
            such a hold is ended, and the next has its permit
        wait d4 2 1 | a copy confirms a grant
        release d4 semaphore:1 600000 - - - 0 0 :1 | \
            a release after a withdrawal finds the permit back -> _ already
        wait b2 2 1 | the notified waiter asks
        wait e5 1 1 :g30000.630000.00000000000000e1 | busy behind all others
        pool/release($n $n) b2 semaphore:1 600000 - - - 0 0 :2 - - - 0 0 :9 | \
            one of two holds comes back, and who is next has its permit",
    );
}
