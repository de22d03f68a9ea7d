//! The waiters of a pool.

use super::pool::KEYS;
use crate::Bed;

const ACQUIRE: &str = "pool/acquire";

pub(super) fn waiters(bed: &mut Bed) {
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :1 3 3 - - -");
    let wait = |bed: &mut Bed, name: &str, attempt: &str, need: u32| {
        let (client, n) = attempt.split_once(':').expect("an attempt");
        let args = format!("by {client} semaphore:1 30000 :{n} {need} 3 5000 @{attempt}:{need} -");
        bed.call(name, ACQUIRE, KEYS, &args)
    };
    wait(bed, "busy, the first in line", "b2:1", 2);
    wait(bed, "busy, a second waiter of the same client", "b2:2", 1);
    wait(bed, "busy, another client", "c3:1", 1);
    let release = "a1 semaphore:1 600000 - - - 1 0 :1";
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
        "by d4 semaphore:1 30000 :1 1 3 - - -",
    );
    wait(bed, "the notified waiter is granted", "b2:1", 2);
    let all = "a1 semaphore:1 600000 - - - 0 0 :1~b2:1";
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
    let leave = "e5 semaphore:1 600000 :2 by @e5:2:1 0 0 :2";
    bed.call("a waiter leaves", "pool/release", KEYS, leave);
}

pub(super) fn dead(bed: &mut Bed) {
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :1 1 1 - - -");
    for n in 1..=65 {
        let args = format!("by b2 semaphore:1 30000 :{n} 1 1 5000 @b2:{n}:1 -");
        bed.run(ACQUIRE, KEYS, &args);
    }
    bed.pass(3000);
    bed.run(
        ACQUIRE,
        KEYS,
        "by c3 semaphore:1 30000 :1 1 1 5000 @c3:1:1 -",
    );
    bed.pass(2500);
    let args = "by d4 semaphore:1 30000 :1 1 1 5000 @d4:1:1 -";
    let reply = bed.call("more, since dead waiters are left", ACQUIRE, KEYS, args);
    assert_eq!(reply[1], "more", "{reply:?}");
}

/// Calls with several entries about one pool that others wait for.
pub(super) fn crowd(bed: &mut Bed) {
    let keys = |count: usize| vec![KEYS; count].join(" ");
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :1 3 3 - - -");
    let entries = ":1 1 3 5000 @b2:1:1 - :2 1 3 5000 @b2:2:1 1 :3 4 3 5000 @b2:3:4 -";
    let args = format!("b2 semaphore:1 30000 {entries}");
    let name = "two are busy and queue, one needs more than the size";
    bed.call(name, ACQUIRE, &keys(3), &format!("by {args}"));
    bed.run(
        ACQUIRE,
        KEYS,
        "by c3 semaphore:1 30000 :1 1 3 5000 @c3:1:1 -",
    );
    bed.call("late", ACQUIRE, &keys(3), &format!("past {args}"));
    let name = "a hold comes back, three waiters are notified, and an unknown hold is gone";
    let back = "a1 semaphore:1 600000 - - - 0 0 :1 - - - 0 0 :9";
    bed.call(name, "pool/release", &keys(2), back);
    let later = ":4 1 3 5000 @b2:4:1 - :5 1 3 - - -";
    let name = "granted twice, a waiter and a try behind one of another client, and one twice";
    let twice = format!("by {args} {later} :4 1 3 5000 @b2:4:1 -");
    bed.call(name, ACQUIRE, &keys(6), &twice);
    let name = "copies, a waiter again, and a try that has ended";
    bed.call(name, ACQUIRE, &keys(5), &format!("by {args} {later}"));
    let back = "b2 semaphore:1 600000 - - - 0 0 :1 - - - 0 0 :2:0";
    bed.call("two holds come back", "pool/release", &keys(2), back);
}

/// Waiters with an order, to whom a release grants.
pub(super) fn granted_ahead(bed: &mut Bed) {
    let (release, withdraw) = ("pool/release", "pool/withdraw");
    bed.run(ACQUIRE, KEYS, "by a1 semaphore:1 30000 :1 3 3 - - -");
    let wait = |bed: &mut Bed, name: &str, attempt: &str, need: u32, order: &str| {
        let (client, n) = attempt.split_once(':').expect("an attempt");
        let entry = format!(":{n} {need} 3 5000 @{attempt}:{need}{order} -");
        let args = format!("by {client} semaphore:1 30000 {entry}");
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
    let reply = bed.call(name, release, KEYS, "a1 semaphore:1 600000 - - - 0 0 :1");
    assert_eq!(
        (&*reply[3], &*reply[4], &*reply[7]),
        ("sent", "granted", "granted"),
        "{reply:?}"
    );
    let name = "a waiter without an order is notified, and the next has its permit";
    bed.call(name, release, KEYS, "b2 semaphore:1 600000 :1 - - 0 0 :1");
    bed.call(
        "the first renewal",
        "pool/renew",
        "n",
        "by c3 semaphore:1 30000 :1",
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
    let args = "by d4 semaphore:1 30000 :2 1 3 5000 @d4:2:1 -";
    bed.call("a copy confirms a grant", ACQUIRE, KEYS, args);
    let name = "a release after a withdrawal finds the permit back";
    let reply = bed.call(name, release, KEYS, "d4 semaphore:1 600000 - - - 0 0 :1");
    assert_eq!(reply[1], "already", "{reply:?}");
    wait(bed, "the notified waiter asks", "b2:2", 1, "");
    let order = ":g30000.630000.00000000000000e1";
    wait(bed, "busy behind all others", "e5:1", 1, order);
    let name = "one of two holds comes back, and who is next has its permit";
    let back = "b2 semaphore:1 600000 - - - 0 0 :2 - - - 0 0 :9";
    bed.call(name, release, &format!("{KEYS} {KEYS}"), back);
}
