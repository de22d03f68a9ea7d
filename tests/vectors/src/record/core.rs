//! The scripts of the core.

use crate::Bed;

/// With `K` and the parts that a kind may have.
const WORDS: &str = "define forget core/forget(n n:q n:l n:r n:d n:o n:p)";

pub(super) fn probe(bed: &mut Bed) {
    bed.play("core/probe(=redlatch:{a1}:p) PUBLISH redlatch:w:a1 | all rights");
}

pub(super) fn forgotten(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "forget by lock:1 | unset
        forget past lock:1 | late
        reentrant/acquire(n n:q) by a1 30000 630000 - :1 :2 - -
        forget by lock:1 | held
        forget by fair:1 | kind, another one
        pass 30000
        forget by lock:1 | forgotten, after the lease
        HSET redlatch:{n} k other:9
        forget by other:9 | kind, an unknown one
        HSET redlatch:{n} k lock:1 t 1700000099000001
        forget by lock:1 | early, a token ahead of the clock
        clear
        HSET redlatch:{n} k lock:1 v 1700000030600~a1:1
        forget by lock:1 | early, copies may come
        clock 999999999999999
        forget by lock:1 | a clock before 2001",
    );
}

pub(super) fn forgotten_kinds(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "HSET %n k rw:1 ra1:1 1700000030000~1700000000000001~1700000000000000~r~a1:2~
        forget by rw:1 | held by a reader
        clear
        HSET %n k semaphore:1 s 2 c 1 h:a1:1 1700000030000~1~0
        forget by semaphore:1 | held, a permit
        HDEL %n h:a1:1
        HSET %n:o a1:2 done~2
        PEXPIRE %n:o 30000
        forget by semaphore:1 | early, an operation is remembered
        pass 31000
        forget by semaphore:1 | forgotten, a semaphore
        HSET %n k fair:1 n 1700000035000
        ZADD %n:q 1700000000000001 PUBLISH~redlatch:w:a1~2
        forget by fair:1 | waited
        pass 5000
        forget by fair:1 | forgotten with its dead waiters
        HSET %n k latch:1 g 1700000000000001 t 1700000000000001 c 2 e -
        forget by latch:1 | set, a latch
        HDEL %n c
        forget by latch:1 | forgotten, a latch that was deleted
        HSET %n k once:1 t 1700000000000001
        forget by once:1 | set, a job",
    );
}
