//! The waiters of a pool.

use super::pool::KEYS;
use crate::Bed;

const ACQUIRE: &str = "pool/acquire";

pub(super) fn waiters(bed: &mut Bed) {
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:1 3 30000 3 - - -");
    let wait = |bed: &mut Bed, name: &str, attempt: &str, need: u32| {
        let args = format!("by semaphore:1 {attempt} {need} 30000 3 5000 @{attempt}:{need} -");
        bed.call(name, ACQUIRE, KEYS, &args)
    };
    wait(bed, "busy, the first in line", "b2:1", 2);
    wait(bed, "busy, a second waiter of the same client", "b2:2", 1);
    wait(bed, "busy, another client", "c3:1", 1);
    let release = "semaphore:1 - - 600000 - 1 0 a1:1";
    bed.call(
        "two permits come back, and the first in line is notified",
        "pool/release",
        KEYS,
        release,
    );
    let name = "busy, since it is the turn of another waiter of this client";
    wait(bed, name, "b2:2", 1);
    bed.call(
        "a try does not overtake",
        ACQUIRE,
        KEYS,
        "by semaphore:1 d4:1 1 30000 3 - - -",
    );
    wait(bed, "the notified waiter is granted", "b2:1", 2);
    let all = "semaphore:1 - - 600000 - 0 0 a1:1 b2:1";
    bed.call(
        "three permits come back, and two waiters are notified",
        "pool/release",
        KEYS,
        all,
    );
    wait(
        bed,
        "granted, the second in line while the first is called",
        "c3:1",
        1,
    );
    bed.call(
        "the entries of a client",
        "pool/withdraw",
        KEYS,
        "list redlatch:w:b2 semaphore:1",
    );
    bed.call(
        "an entry is removed",
        "pool/withdraw",
        KEYS,
        "strike redlatch:w:b2 semaphore:1 2",
    );
    wait(bed, "granted, and nobody is left in line", "d4:2", 1);
    wait(bed, "busy, it needs all", "e5:1", 3);
    let keys = "n n:d n:q n:l n:o n:p";
    let smaller = "by semaphore:1 a1:9 30000 set 2 -";
    bed.call(
        "a smaller size, and who needs more is told",
        "pool/change",
        keys,
        smaller,
    );
    let leave = "semaphore:1 e5:2 by 600000 @e5:2:1 0 0 e5:2";
    bed.call("a waiter leaves", "pool/release", KEYS, leave);
}

pub(super) fn dead(bed: &mut Bed) {
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:1 1 30000 1 - - -");
    for n in 1..=65 {
        let args = format!("by semaphore:1 b2:{n} 1 30000 1 5000 @b2:{n}:1 -");
        bed.run(ACQUIRE, KEYS, &args);
    }
    bed.pass(3000);
    bed.run(
        ACQUIRE,
        KEYS,
        "by semaphore:1 c3:1 1 30000 1 5000 @c3:1:1 -",
    );
    bed.pass(2500);
    let args = "by semaphore:1 d4:1 1 30000 1 5000 @d4:1:1 -";
    let reply = bed.call("more, since dead waiters are left", ACQUIRE, KEYS, args);
    assert_eq!(reply[1], "more", "{reply:?}");
}

/// Calls of one client about one pool that others wait for, as common calls.
pub(super) fn crowd(bed: &mut Bed) {
    let (acquire, release) = ("pool/acquire_some", "pool/release_some");
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:1 3 30000 3 - - -");
    let args = "b2 semaphore:1 30000 5000 :1 1 @b2:1:1 - :2 1 @b2:2:1 1 :3 4 @b2:3:4 -";
    let name = "left as they are, since nobody waits yet";
    bed.call(name, acquire, KEYS, &format!("by {args}"));
    bed.run(
        ACQUIRE,
        KEYS,
        "by semaphore:1 c3:1 1 30000 3 5000 @c3:1:1 -",
    );
    let name = "two are busy and queue, one needs more than the size and is left as it is";
    bed.call(name, acquire, KEYS, &format!("by {args}"));
    bed.call("late", acquire, KEYS, &format!("past {args}"));
    let name = "a hold comes back, three waiters are notified, and an unknown hold is left";
    bed.call(name, release, KEYS, "a1 semaphore:1 :1 :9");
    let name = "granted twice, behind a waiter of another client";
    bed.call(name, acquire, KEYS, &format!("by {args}"));
    bed.call(
        "copies are left as they are",
        acquire,
        KEYS,
        &format!("by {args}"),
    );
    bed.call(
        "two holds come back",
        release,
        KEYS,
        "b2 semaphore:1 :1 :2:0",
    );
}

/// Waiters with an order, to whom a release grants.
pub(super) fn granted_ahead(bed: &mut Bed) {
    let (release, withdraw) = ("pool/release", "pool/withdraw");
    bed.run(ACQUIRE, KEYS, "by semaphore:1 a1:1 3 30000 3 - - -");
    let wait = |bed: &mut Bed, name: &str, attempt: &str, need: u32, order: &str| {
        let args =
            format!("by semaphore:1 {attempt} {need} 30000 3 5000 @{attempt}:{need}{order} -");
        bed.call(name, ACQUIRE, KEYS, &args)
    };
    wait(
        bed,
        "busy, the first waiter with an order",
        "b2:1",
        2,
        ":g30000.630000.00000000000000b1",
    );
    wait(
        bed,
        "busy, with an order of a short lease",
        "c3:1",
        1,
        ":g1500.601500.00000000000000c1",
    );
    wait(bed, "busy, without an order", "b2:2", 1, "");
    wait(
        bed,
        "busy, the last waiter with an order",
        "d4:1",
        1,
        ":g30000.630000.00000000000000d1",
    );
    let name = "three permits come back, and two waiters have them";
    let reply = bed.call(name, release, KEYS, "semaphore:1 - - 600000 - 0 0 a1:1");
    assert_eq!(
        (&*reply[3], &*reply[6]),
        ("granted", "granted"),
        "{reply:?}"
    );
    let name = "a waiter without an order is notified, and the next has its permit";
    bed.call(name, release, KEYS, "semaphore:1 - - 600000 - 0 0 b2:1");
    bed.call(
        "the first renewal",
        "pool/renew",
        "n",
        "by semaphore:1 30000 c3:1",
    );
    let order = ":g30000.630000.00000000000000d2";
    wait(
        bed,
        "a waiter that has just come is told of nothing",
        "d4:2",
        1,
        order,
    );
    let name = "a hold that nobody has confirmed is told to a waiter of its client";
    let reply = wait(bed, name, "d4:2", 1, order);
    assert_eq!((&*reply[1], &*reply[3]), ("busy", "1"), "{reply:?}");
    bed.call(
        "a hold that nobody has confirmed is listed",
        withdraw,
        KEYS,
        "list redlatch:w:d4 semaphore:1",
    );
    let name = "such a hold is ended, and the next has its permit";
    bed.call(name, withdraw, KEYS, "strike redlatch:w:d4 semaphore:1 1");
    let args = "by semaphore:1 d4:2 1 30000 3 5000 @d4:2:1 -";
    bed.call("a copy confirms a grant", ACQUIRE, KEYS, args);
    let name = "a release after a withdrawal finds the permit back";
    let reply = bed.call(name, release, KEYS, "semaphore:1 - - 600000 - 0 0 d4:1");
    assert_eq!(reply[1], "already", "{reply:?}");
    wait(bed, "the notified waiter asks", "b2:2", 1, "");
    let order = ":g30000.630000.00000000000000e1";
    wait(bed, "busy behind all others", "e5:1", 1, order);
    let name = "one of two holds comes back, and who is next has its permit";
    bed.call(name, "pool/release_some", KEYS, "b2 semaphore:1 :2 :9");
}
