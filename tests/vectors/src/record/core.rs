//! The scripts of the core.

use crate::Bed;

pub(super) fn probe(bed: &mut Bed) {
    bed.call(
        "all rights",
        "core/probe",
        "=redlatch:{a1}:p",
        "PUBLISH redlatch:w:a1",
    );
}

const FORGET: &str = "core/forget";

/// `K` and the parts that a kind may have.
const ALL: &str = "n n:q n:l n:r n:d n:o n:p";

pub(super) fn forgotten(bed: &mut Bed) {
    bed.call("unset", FORGET, ALL, "by lock:1");
    bed.call("late", FORGET, ALL, "past lock:1");
    let acquire = ("reentrant/acquire", "n n:q");
    bed.run(acquire.0, acquire.1, "by a1 30000 630000 - :1 :2 - -");
    bed.call("held", FORGET, ALL, "by lock:1");
    bed.call("kind, another one", FORGET, ALL, "by fair:1");
    bed.pass(30_000);
    bed.call("forgotten, after the lease", FORGET, ALL, "by lock:1");
    bed.put("HSET redlatch:{n} k other:9");
    bed.call("kind, an unknown one", FORGET, ALL, "by other:9");
    bed.put("HSET redlatch:{n} k lock:1 t 1700000099000001");
    bed.call(
        "early, a token ahead of the clock",
        FORGET,
        ALL,
        "by lock:1",
    );
    bed.clear();
    bed.put("HSET redlatch:{n} k lock:1 v 1700000030600~a1:1");
    bed.call("early, copies may come", FORGET, ALL, "by lock:1");
    bed.set_micros(999_999_999_999_999);
    bed.call("a clock before 2001", FORGET, ALL, "by lock:1");
}

pub(super) fn forgotten_kinds(bed: &mut Bed) {
    bed.put(
        "HSET redlatch:{n} k rw:1 ra1:1 1700000030000~1700000000000001~1700000000000000~r~a1:2~",
    );
    bed.call("held by a reader", FORGET, ALL, "by rw:1");
    bed.clear();
    bed.put("HSET redlatch:{n} k semaphore:1 s 2 c 1 h:a1:1 1700000030000~1~0");
    bed.call("held, a permit", FORGET, ALL, "by semaphore:1");
    bed.put("HDEL redlatch:{n} h:a1:1");
    bed.put("HSET redlatch:{n}:o a1:2 done~2");
    bed.put("PEXPIRE redlatch:{n}:o 30000");
    bed.call(
        "early, an operation is remembered",
        FORGET,
        ALL,
        "by semaphore:1",
    );
    bed.pass(31_000);
    bed.call("forgotten, a semaphore", FORGET, ALL, "by semaphore:1");
    bed.put("HSET redlatch:{n} k fair:1 n 1700000035000");
    bed.put("ZADD redlatch:{n}:q 1700000000000001 PUBLISH~redlatch:w:a1~2");
    bed.call("waited", FORGET, ALL, "by fair:1");
    bed.pass(5_000);
    bed.call("forgotten with its dead waiters", FORGET, ALL, "by fair:1");
    bed.put("HSET redlatch:{n} k latch:1 g 1700000000000001 t 1700000000000001 c 2 e -");
    bed.call("set, a latch", FORGET, ALL, "by latch:1");
    bed.put("HDEL redlatch:{n} c");
    bed.call(
        "forgotten, a latch that was deleted",
        FORGET,
        ALL,
        "by latch:1",
    );
    bed.put("HSET redlatch:{n} k once:1 t 1700000000000001");
    bed.call("set, a job", FORGET, ALL, "by once:1");
}
