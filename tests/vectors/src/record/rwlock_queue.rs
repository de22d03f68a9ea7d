//! The waiters of a read-write lock.

use super::rwlock::{KEYS, read, release, write};
use crate::Bed;

const TOLD: &str = "PUBLISH %n:b";

fn wait_to_read(bed: &mut Bed, name: &str, client: &str, n: u32) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client}:{owner} {client}:{n} 30000 630000 5000 @{client}:{n} r {TOLD}");
    bed.call(name, "rwlock/read", KEYS, &args)
}

fn wait_to_write(bed: &mut Bed, name: &str, client: &str, n: u32) -> Vec<String> {
    let owner = n - 1;
    let args = format!("by {client}:{owner} {client}:{n} 30000 630000 5000 @{client}:{n} - {TOLD}");
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
    let list = format!("list redlatch:w:b2 {TOLD}");
    bed.call("the entries of a client", "rwlock/withdraw", KEYS, &list);
    let token = wait_to_write(bed, "the notified writer is granted", "b2", 2)[3].clone();
    wait_to_write(bed, "busy, the next writer waits", "c3", 4);
    let strike = format!("strike redlatch:w:c3 {TOLD} 4");
    bed.call("an entry is removed", "rwlock/withdraw", KEYS, &strike);
    wait_to_read(bed, "busy, a reader waits for the second writer", "a1", 4);
    let down = format!("by b2:1 b2:3 30000 630000 b2:2 {token} - {TOLD}");
    let name = "the writer becomes a reader, and the waiting readers are told";
    bed.call(name, "rwlock/downgrade", KEYS, &down);
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
