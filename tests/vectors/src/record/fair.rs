//! The queue of the fair lock.

use super::exclusive::{KINDS, Kind};
use crate::Bed;

/// Newcomers and waiters of several clients.
pub(super) fn in_order(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, keys) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.keys("n"),
    );
    let token = kind.take(bed, "n", "a1", 2);
    kind.wait(
        bed,
        "the first in line looks at the end of the lease",
        "b2",
        2,
    );
    kind.wait(bed, "a second waiter of the same client", "b2", 4);
    kind.wait(
        bed,
        "the second client in line looks after the first",
        "c3",
        2,
    );
    bed.run(&release, &keys, &format!("a1 600000 :1 :2 - - {token}"));
    bed.pass(1);
    let try_lock = "by a1 30000 630000 - :3 :4 - -";
    bed.call(
        "free, and another waiter's turn: a try",
        &acquire,
        &keys,
        try_lock,
    );
    kind.wait(
        bed,
        "free, and another waiter's turn: a newcomer queues",
        "a1",
        6,
    );
    kind.wait(
        bed,
        "free, and the turn of another waiter of this client",
        "b2",
        4,
    );
    bed.pass(2500);
    for (client, n) in [("b2", 4), ("c3", 2)] {
        let args = format!(
            "by {client} 30000 630000 - :{} :{n} 5000 @{client}:{n}:{}",
            n - 1,
            n - 1
        );
        bed.run(&acquire, &keys, &args);
    }
    bed.pass(2500);
    let name = "the notified waiter did not come, and the next is notified";
    kind.wait(bed, name, "a1", 6);
    kind.wait(
        bed,
        "a waiter that was passed over joins at the end",
        "b2",
        2,
    );
    let silent = "by d4 30000 630000 - :1 :2 5000 !d4:2:1";
    bed.call("a waiter that polls", &acquire, &keys, silent);
}

/// Many dead waiters in front of a living one.
pub(super) fn dead_waiters(bed: &mut Bed, kind: &Kind) {
    let (acquire, release, keys) = (
        kind.script("acquire"),
        kind.script("release"),
        kind.keys("n"),
    );
    let token = kind.take(bed, "n", "a1", 2);
    for n in 1..=65 {
        let (owner, attempt) = (2 * n, 2 * n + 1);
        let args = format!("by b2 30000 630000 - :{owner} :{attempt} 5000 @b2:{attempt}:{owner}");
        bed.run(&acquire, &keys, &args);
    }
    bed.pass(3000);
    bed.run(&acquire, &keys, "by c3 30000 630000 - :1 :2 5000 @c3:2:1");
    bed.pass(2500);
    let held = format!("a1 600000 :1 :2 - - {token}");
    let name = "too many dead waiters: one of the last that lives is made to look";
    bed.call(name, &release, &keys, &held);
    let more = kind.wait(
        bed,
        "granted, after more dead waiters were removed",
        "c3",
        2,
    );
    assert_eq!(more[1], "granted");
    bed.clear();
    for n in 1..=120 {
        bed.put(&format!(
            "ZADD %n:q {} @b2:{n}:1",
            1_700_000_000_000_000_u64 + n
        ));
    }
    bed.put("PEXPIRE %n:q 9000");
    let soon = bed.run(&kind.script("inspect"), &keys, "");
    let now: u64 = soon[0].parse().expect("a time");
    bed.put(&format!("HSET %n k {}:1 n {}", kind.folder, now + 4000));
    bed.put("PEXPIRE %n 600000");
    bed.put(&format!("ZADD %n:l {} redlatch:w:b2", now - 1));
    bed.put("PEXPIRE %n:l 9000");
    let more = kind.wait(bed, "more, since dead waiters are left", "d4", 2);
    assert_eq!(more[1], "more");
}

/// The scripts that show waiters.
pub(super) fn inspection(bed: &mut Bed) {
    let kind = &KINDS[1];
    let (waiters, position) = ("fair/waiters", "fair/position");
    kind.take(bed, "n", "a1", 2);
    for (client, n) in [("b2", 2), ("c3", 2), ("b2", 4)] {
        let args = format!(
            "by {client} 30000 630000 - :{} :{n} 5000 @{client}:{n}:{}",
            n - 1,
            n - 1
        );
        bed.run("fair/acquire", "n n:q n:l", &args);
        bed.pass(1);
    }
    let all = bed.call("all waiters", waiters, "n n:q n:l", "- 100");
    let after = format!("{} 1", all[3]);
    bed.call("one waiter behind a ticket", waiters, "n n:q n:l", &after);
    bed.call("two waiters are in front", position, "n n:q", "@b2:4:3");
    bed.call("it does not wait", position, "n n:q", "@d4:2:1");
    bed.pass(3000);
    bed.run(
        "fair/acquire",
        "n n:q n:l",
        "by c3 30000 630000 - :1 :2 5000 @c3:2:1",
    );
    bed.pass(2500);
    bed.call(
        "two waiters, of which the first is dead",
        waiters,
        "n n:q n:l",
        "- 2",
    );
    bed.put("HSET %m k other:1");
    bed.call("another kind", waiters, "m m:q m:l", "- 100");
    bed.call("another kind", position, "m m:q", "@b2:2:1");
}
