//! The queue of the fair lock.

use super::exclusive::{KINDS, Kind};
use crate::Bed;

/// Newcomers and waiters of several clients.
pub(super) fn in_order(bed: &mut Bed, kind: &Kind) {
    bed.play(&kind.words());
    bed.play(
        "take a1 1 2 -> _ granted _ $token
        wait b2 1 2 | the first in line looks at the end of the lease
        wait b2 3 4 | a second waiter of the same client
        wait c3 1 2 | the second client in line looks after the first
        release a1 600000 :1 :2 - - $token
        pass 1
        take a1 3 4 | free, and another waiter's turn: a try
        wait a1 5 6 | free, and another waiter's turn: a newcomer queues
        wait b2 3 4 | free, and the turn of another waiter of this client
        pass 2500
        wait b2 3 4
        wait c3 1 2
        pass 2500
        wait a1 5 6 | the notified waiter did not come, and the next is notified
        wait b2 1 2 | a waiter that was passed over joins at the end
        acquire by d4 30000 630000 - :1 :2 5000 !d4:2:1 | a waiter that polls",
    );
}

/// Waiters with an order, to whom a release grants.
pub(super) fn granted_ahead(bed: &mut Bed, kind: &Kind) {
    bed.play(&kind.words());
    bed.play(
        "define ordered $kind/acquire($n) by $1 30000 630000 - :$2 :$3 5000 \
            @$1:$3:$2:g30000.630000.0000000000000$1$3
        take a1 1 2 -> _ granted _ $token
        ordered b2 1 2 | busy, the first in line has an order
        ordered a1 3 4 | busy, a waiter of the client that holds has an order
        release a1 600000 :1 :2 - - $token | the first in line has the name, and is told \
            -> _ released 0 granted b2:2 _.$next._
        release a1 600000 :1 :2 - - $token | a copy of a release that granted -> _ already
        renew by b2 30000 630000 :1 $next | the first renewal confirms
        release b2 600000 :1 :2 - - $next | the next in line has the name \
            -> _ released 0 granted a1:4 _.$own._
        ordered a1 5 6 | busy, a hold that nobody has confirmed is named to its client
        release a1 600000 :3 :4 - - $own | a waiter of the same client has the name, and gets no \
            message -> _ released 0 granted a1:6
        release a1 600000 :3 :4 - - $own | a copy tells the client of its hold again \
            -> _ already 0 holds a1:6",
    );
}

/// Many dead waiters in front of a living one.
pub(super) fn dead_waiters(bed: &mut Bed, kind: &Kind) {
    bed.play(&kind.words());
    bed.play("take a1 1 2 -> _ granted _ $token");
    for n in 1..=65 {
        bed.play(&format!("wait b2 {} {}", 2 * n, 2 * n + 1));
    }
    bed.play(
        "pass 3000
        wait c3 1 2
        pass 2500
        release a1 600000 :1 :2 - - $token | \
            too many dead waiters: one of the last that lives is made to look
        wait c3 1 2 | granted, after more dead waiters were removed -> _ granted
        clear",
    );
    for n in 1_700_000_000_000_001_u64..=1_700_000_000_000_120 {
        bed.play(&format!("ZADD %n:q {n} @b2:{}:1", n % 1_000));
    }
    bed.play(
        "PEXPIRE %n:q 9000
        HSET %n k $kind:1 n soon
        PEXPIRE %n 600000
        ZADD %n:l past redlatch:w:b2
        PEXPIRE %n:l 9000
        wait d4 1 2 | more, since dead waiters are left -> _ more",
    );
}

/// The scripts that show waiters.
pub(super) fn inspection(bed: &mut Bed) {
    bed.play(&KINDS[1].words());
    bed.play(
        "define waiters fair/waiters($n)
        take a1 1 2 -> _ granted
        wait b2 1 2
        pass 1
        wait c3 1 2
        pass 1
        wait b2 3 4
        pass 1
        waiters - 100 | all waiters -> _ _ _ $ticket
        waiters $ticket 1 | one waiter behind a ticket
        fair/position(n n:q) @b2:4:3 | two waiters are in front
        fair/position(n n:q) @d4:2:1 | it does not wait
        pass 3000
        wait c3 1 2
        pass 2500
        waiters - 2 | two waiters, of which the first is dead
        HSET %m k other:1
        fair/waiters($m) - 100 | another kind
        fair/position(m m:q) @b2:2:1 | another kind",
    );
}
