//! The waiters of a read-write lock.

use super::rwlock::{KEYS, force, read, release, write};
use crate::Bed;

fn wait_to_read(bed: &mut Bed, name: &str, client: &str, n: u32) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client} 30000 630000 :{owner} :{n} 5000 @{client}:{n} r");
    bed.call(name, "rwlock/read", KEYS, &args)
}

fn wait_to_write(bed: &mut Bed, name: &str, client: &str, n: u32) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client} 30000 630000 :{owner} :{n} 5000 @{client}:{n} -");
    bed.call(name, "rwlock/write", KEYS, &args)
}

pub(super) fn batch(bed: &mut Bed) {
    let token = write(bed, "", "a1", 2, "-")[3].clone();
    wait_to_write(bed, "busy, a writer waits for the writer", "b2", 2);
    wait_to_read(bed, "busy, a reader waits for the writer", "c3", 2);
    wait_to_read(bed, "busy, a second reader waits", "d4", 2);
    let id = format!("w {token}");
    release(
        bed,
        "a write ends, and all waiting readers are told",
        "a1",
        2,
        &id,
    );
    wait_to_write(bed, "busy, the readers of the batch go first", "b2", 2);
    let first = wait_to_read(bed, "a reader of the batch is granted", "c3", 2)[6].clone();
    read(
        bed,
        "busy, a newcomer is behind the waiting writer",
        "e5",
        2,
        "r",
    );
    let second = wait_to_read(bed, "the last reader of the batch is granted", "d4", 2)[6].clone();
    release(
        bed,
        "a reader leaves, others stay",
        "c3",
        2,
        &format!("r {first}"),
    );
    let last = "the last reader leaves, and the writer is notified";
    release(bed, last, "d4", 2, &format!("r {second}"));
    let list = "list redlatch:w:b2";
    bed.call("the entries of a client", "rwlock/withdraw", KEYS, list);
    let token = wait_to_write(bed, "the notified writer is granted", "b2", 2)[3].clone();
    wait_to_write(bed, "busy, the next writer waits", "c3", 4);
    let strike = "strike redlatch:w:c3 4";
    bed.call("an entry is removed", "rwlock/withdraw", KEYS, strike);
    wait_to_read(bed, "busy, a reader waits for the second writer", "a1", 4);
    let down = format!("by b2:1 b2:3 30000 630000 b2:2 {token} -");
    let name = "the writer becomes a reader, and the waiting readers are told";
    bed.call(name, "rwlock/downgrade", KEYS, &down);
}

/// Writers with an order, to whom a release grants.
pub(super) fn granted_ahead(bed: &mut Bed) {
    let (renew, withdraw) = ("rwlock/renew", "rwlock/withdraw");
    let wait = |bed: &mut Bed, name: &str, client: &str, n: u32| {
        let owner = n - 1;
        let order = format!("@{client}:{n}:{owner}:g30000.630000.0000000000000{client}{n}");
        let args = format!("by {client} 30000 630000 :{owner} :{n} 5000 {order} -");
        bed.call(name, "rwlock/write", KEYS, &args)
    };
    let token = write(bed, "", "a1", 2, "-")[3].clone();
    wait(bed, "busy, the first writer with an order", "b2", 2);
    wait(bed, "busy, a writer with an order", "c3", 2);
    wait(bed, "busy, a second writer of its client", "c3", 4);
    wait_to_write(bed, "busy, a writer without an order", "d4", 2);
    let name = "a write ends, and the next writer has the lock";
    let reply = release(bed, name, "a1", 2, &format!("w {token}"));
    assert_eq!((&*reply[4], &*reply[5]), ("granted", "b2:2"), "{reply:?}");
    release(bed, "already", "a1", 2, &format!("w {token}"));
    let token = reply[6].split('.').nth(1).expect("a token").to_owned();
    let renewal = format!("by b2 30000 630000 :1 w {token}");
    bed.call("the first renewal confirms", renew, "n", &renewal);
    force(
        bed,
        "a forced end gives it to the next",
        &format!("w - {token} now"),
    );
    let name = "a hold that nobody has confirmed is told to a waiter of its client";
    let reply = wait(bed, name, "c3", 4);
    assert_eq!((&*reply[1], &*reply[4]), ("busy", "2"), "{reply:?}");
    let list = "list redlatch:w:c3";
    bed.call("such a hold is listed", withdraw, KEYS, list);
    let strike = "strike redlatch:w:c3 2";
    let name = "such a hold is ended, and the next writer learns of the forced one";
    bed.call(name, withdraw, KEYS, strike);
    let undo = "c3 600000 :3 :4 - - w -";
    let name = "an undo ends one, and the writer without an order is notified";
    bed.call(name, "rwlock/release", KEYS, undo);
    wait_to_write(bed, "it is granted, and learns of the forced one", "d4", 2);
}

pub(super) fn dead(bed: &mut Bed) {
    read(bed, "", "a1", 2, "r");
    let now = bed.run("rwlock/inspect", KEYS, "-")[0].clone();
    let now: u64 = now.parse().expect("a time");
    for n in 1..=65 {
        bed.put(&format!(
            "ZADD %n:q {} @b2:{n}",
            1_700_000_000_000_000_u64 + n
        ));
    }
    bed.put("PEXPIRE %n:q 9000");
    bed.put(&format!("ZADD %n:l {} redlatch:w:b2", now - 1));
    bed.put("PEXPIRE %n:l 9000");
    bed.put(&format!("HSET %n n {}", now + 4000));
    let reply = wait_to_read(bed, "more, since dead waiters are left", "c3", 2);
    assert_eq!(reply[1], "more", "{reply:?}");
    for n in 1..=65 {
        bed.put(&format!(
            "ZADD %n:q {} @b2:{n}",
            1_700_000_000_000_000_u64 + n
        ));
    }
    let reply = wait_to_write(bed, "more, since dead waiters are left", "c3", 2);
    assert_eq!(reply[1], "more", "{reply:?}");
}
