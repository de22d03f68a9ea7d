//! The scripts about the layouts of other libraries.

use super::{before_2001, late};
use crate::Bed;

/// `setnx` has a raw name, and the hash of marks beside it. `$told` is the channel on which clients
/// of this family are told.
const SET_NX: &str = "
    define acquire setnx/acquire(=n =redlatch:setnx?{n}{})
    define renew setnx/renew(=n =redlatch:setnx?{n}{})
    define release setnx/release(=n =redlatch:setnx?{n}{})
    define told redlatch:setnx?{n}{}";

/// `$rust` and `$java` are owners as Redisson writes them: a client of this family, and a Java
/// thread. `$told` is Redisson's channel of the name.
const REDISSON: &str = "
    define rust 11111111-2222-4333-8444-555555555555:1
    define java aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33
    define told redisson_lock__channel:{n}
    define look redisson/look(=n =redlatch:redisson?{n}{})
    define acquire redisson/acquire(=n =redlatch:redisson?{n}{})
    define take redisson/acquire(=n =redlatch:redisson?{n}{}) by $rust $1 $2 $3
    define renew redisson/renew(=n =redlatch:redisson?{n}{})
    define release redisson/release(=n =redlatch:redisson?{n}{})
    define give redisson/release(=n =redlatch:redisson?{n}{}) $rust $1 - 30000 $told $2
    define undo redisson/release(=n =redlatch:redisson?{n}{}) $rust $1 by 30000 $told -
    define force redisson/force(=n =redlatch:redisson?{n}{} =redlatch:redissonforce?{n}{})";

pub(super) fn set_nx(bed: &mut Bed) {
    bed.play(SET_NX);
    bed.play(
        "setnx/look(=n) | free
        acquire by a1:1 30000 60000 | the first -> _ granted $serial
        pass 1000
        acquire by a1:1 30000 60000 | a copy of the first
        acquire by b2:1 30000 60000 | held by an attempt
        setnx/look(=n) | held
        renew by a1:1 $serial 30000 60000 | renewed
        renew by a1:1 $serial 60000 90000 | a longer lease
        renew by a1:1 $serial 30000 60000 | a longer lease stays
        acquire by a1:1 30000 60000 | a copy of the first, whose lease is longer by now
        renew by b2:1 $serial 30000 60000 | taken
        release b2:1 - - 30000 $told | taken: another attempt has it
        release a1:1 $serial - 30000 $told | released, and tells
        release a1:1 $serial - 30000 $told | already: a copy of the release
        release b2:1 - - 30000 $told | gone: nobody has it
        renew by a1:1 $serial 30000 60000 | gone
        SET n token-of-another-library PX 8000
        acquire by a1:2 30000 60000 | held by another library
        release b2:1 - - 30000 $told | taken: another library
        SET n token-of-redis-py
        acquire by a1:3 30000 60000 | held by another library without an end
        setnx/look(=n) | held without an end",
    );
}

pub(super) fn set_nx_undone(bed: &mut Bed) {
    bed.play(SET_NX);
    bed.play(
        "acquire by a1:1 30000 60000
        release a1:1 - by 30000 $told | released, with a copy on the way
        acquire by a1:1 30000 60000 | void: the copy
        release a1:2 - by 30000 $told | gone, before it arrives
        acquire by a1:2 30000 60000 | void: it arrives
        pass 1000
        acquire by b2:1 30000 60000 | granted, while copies of others are refused",
    );
}

/// A late copy takes a name again after another program has removed the value. Serials rise
/// although the clock is set back.
pub(super) fn set_nx_revived(bed: &mut Bed) {
    bed.play(SET_NX);
    bed.play(
        "acquire by a1:1 30000 60000 -> _ granted $serial
        DEL n
        back 3000
        acquire by a1:1 30000 60000 | granted: a late copy, after the value was removed
        renew by a1:1 $serial 30000 60000 | taken: a late copy has it
        release a1:1 $serial - 30000 $told | gone: the hold, and what the late copy took",
    );
}

pub(super) fn redisson(bed: &mut Bed) {
    bed.play(REDISSON);
    bed.play(
        "look | free
        take a1:1 30000 60000 | the first -> _ granted _ $serial
        pass 1000
        take a1:1 30000 60000 | a copy
        look | held by us
        take a1:2 60000 90000 | again
        take a1:3 10000 40000 | again, and the longer lease stays
        acquire by $java b2:1 30000 60000 | held by us
        pass 1000
        renew by $rust 30000 60000 $serial | a longer lease stays
        renew by $rust 90000 120000 $serial | renewed
        renew by $java 30000 60000 $serial | taken
        give a1:2 $serial | released, two left
        give a1:2 $serial | already: a copy
        give a1:1 $serial | released, one left
        give a1:2 $serial | gone: an older copy
        release $java b2:1 - 30000 $told - | taken: we have it
        give a1:3 $serial | released, and tells
        give a1:3 $serial | already: a copy of the last
        renew by $rust 30000 60000 $serial | gone
        take a1:4 30000 60000 | the first after a release",
    );
}

pub(super) fn redisson_ends(bed: &mut Bed) {
    bed.play(REDISSON);
    bed.play(
        "take a1:1 30000 60000
        pass 31000
        give a1:1 - | gone: the lease has ended
        take a1:2 30000 60000
        pass 31000
        HSET n $java 1
        PEXPIRE n 30000
        give a1:2 - | taken: the lease has ended, and Java has it
        clear
        undo a1:3 | gone, before it arrives
        take a1:3 30000 60000 | void: it arrives
        pass 1000
        take a1:4 30000 60000 | granted, while copies of others are refused
        undo a1:4 | released, with a copy on the way
        take a1:4 30000 60000 | void: the copy",
    );
}

/// A late copy takes a name again, and the hash beside the name is lost. Serials rise although the
/// clock is set back.
pub(super) fn redisson_revived(bed: &mut Bed) {
    bed.play(REDISSON);
    bed.play(
        "take a1:1 30000 60000 -> _ granted _ $serial
        DEL n
        back 3000
        take a1:1 30000 60000 | granted: a late copy, after the hold was ended
        renew by $rust 30000 60000 $serial | taken: a late copy has it
        give a1:1 $serial | gone: the hold, and what the late copy took
        clear
        take a1:2 30000 60000 -> _ granted _ $serial
        take a1:3 30000 60000
        DEL redlatch:redisson?{n}{}
        renew by $rust 30000 60000 $serial | gone: the hash beside the name is lost
        give a1:2 $serial | gone: the hash beside the name is lost
        take a1:4 30000 60000 | granted: anew, since the hash beside the name is lost
        give a1:3 $serial | gone: a hold whose attempts are lost",
    );
}

/// What Redisson writes, as its own commands: `HINCRBY` and `PEXPIRE`.
pub(super) fn redisson_as_java(bed: &mut Bed) {
    bed.play(REDISSON);
    bed.play(
        "HINCRBY n $java 1
        PEXPIRE n 30000
        HINCRBY n $java 1
        pass 10
        look | held by Java, twice
        take a1:1 30000 60000 | held by Java
        PERSIST n
        take a1:1 30000 60000 | held by Java without an end
        look | held by Java without an end",
    );
}

pub(super) fn redisson_force(bed: &mut Bed) {
    bed.play(REDISSON);
    bed.play(
        "HINCRBY n $java 1
        PEXPIRE n 30000
        force by a1:7 $rust - 30000 $told | gone: another owner than the one found
        force by a1:8 $java - 30000 $told | done, and tells
        HINCRBY n $java 1
        PEXPIRE n 30000
        force by a1:8 $java - 30000 $told | done: a copy, and a later hold stays
        DEL n
        force by a1:9 $java - 30000 $told | gone
        HINCRBY n $java 1
        PEXPIRE n 30000
        force by a1:9 $java - 30000 $told | gone: a copy, and a later hold stays
        DEL n
        take a1:1 30000 60000 -> _ granted _ $serial
        force by b2:1 $rust 1700000000000001 30000 $told | gone: a later hold of the owner
        force by b2:2 $rust $serial 30000 $told | done: a hold of this family
        renew by $rust 30000 60000 $serial | revoked
        give a1:1 $serial | revoked
        give a1:1 $serial | revoked: a copy
        pass 31000
        force by b2:3 $java - 30000 $told | gone: older operations are forgotten",
    );
}

pub(super) fn refusals(bed: &mut Bed) {
    bed.play(REDISSON);
    let dated = [
        "setnx/acquire(=n =redlatch:setnx?{n}{}) by a1:1 30000 60000",
        "setnx/renew(=n =redlatch:setnx?{n}{}) by a1:1 1700000000000001 30000 60000",
        "acquire by $rust a1:1 30000 60000",
        "renew by $rust 30000 60000 1700000000000001",
        "force by b2:1 $java - 30000 $told",
    ];
    bed.play("HSET n mode write $java:write 1");
    late(bed, &dated);
    bed.play(
        "take a1:1 30000 60000 | kind
        look | kind
        force by b2:1 $java - 30000 $told | kind
        renew by $rust 30000 60000 1700000000000001 | taken: a hash that is no RLock
        give a1:1 1700000000000001 | taken: a hash that is no RLock",
    );
    before_2001(bed, &dated);
}
