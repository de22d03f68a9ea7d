//! Readers and the writer of a read-write lock.

use super::refused;
use crate::Bed;

/// `$n` and other letters are the keys of a lock. `read` and `write` ask without waiting: `u` is
/// for the upgradable hold, whose serial a write has. `release` ends a hold of a side by its id.
pub(super) const WORDS: &str = "
    define n n n:q n:r n:l n:d
    define m m m:q m:r m:l m:d
    define o o o:q o:r o:l o:d
    define s s s:q s:r s:l s:d
    define read rwlock/read($n) by $1 30000 630000 :$2 :$3 - - $4
    define write rwlock/write($n) by $1 30000 630000 :$2 :$3 - - $4
    define downgrade rwlock/downgrade($n) by $1 $2 30000 630000 $3 $4 -
    define release rwlock/release($n) $1 600000 :$2 :$3 - - $4 $5
    define undo rwlock/release($n) $1 600000 :$2 :$3 by - r -
    define renew rwlock/renew(n) by $1 30000 630000 :1 $2 $3
    define force rwlock/force($n) $1 $2 $3 $4 600000 redlatch:w:
    define inspect rwlock/inspect($n)
    define withdraw rwlock/withdraw($n)";

pub(super) fn readers(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "inspect - | nobody holds
        read a1 1 2 r | the first reader -> _ granted _ _ _ _ $first
        read a1 1 2 r | a copy of a granted request
        pass 10
        read b2 1 2 r | a second reader -> _ granted _ _ _ _ $second
        read a1 1 2 r | the owner enters again
        rwlock/holders(n) 0 | all readers
        inspect a1:1 | readers, and the holds of one owner
        write c3 1 2 - | busy, readers are inside
        write a1 1 9 - | reader, who would wait for itself
        read a1 1 2 u | reader, who asks for the upgradable hold
        pass 1000
        renew a1 r $first | renewed
        rwlock/renew(n) past a1 30000 630000 :1 r $first | late
        release a1 1 2 r $first | a reader is released
        release a1 1 2 r $first | already
        renew a1 r 9999999999999999 | gone
        force r b2:1 $second after | the renewal of a reader is forbidden
        force r b2:1 $second after | already
        renew b2 r $second | revoked
        force r b2:1 $second now | a reader is ended at once
        release b2 1 2 r $second | revoked
        undo c3 1 2 | an undo ends an attempt that never ran
        read c3 1 2 r | void
        write c3 1 2 - | void
        read d4 1 2 r | granted, of another client -> _ granted _ _ _ _ $third
        pass 30000
        renew d4 r $third | expired
        release d4 1 2 r $third | expired
        release d4 1 2 r 9999999999999999 | gone
        write a1 3 4 - | granted, the readers are over
        renew d4 r $third | taken, a reader before a write
        release d4 1 2 r $third | taken, a reader before a write",
    );
}

pub(super) fn writer(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "write a1 1 2 - | a free lock -> _ granted _ $token
        write a1 1 2 - | a copy of a granted request
        pass 1000
        renew a1 w $token | renewed, a writer
        read b2 1 2 r | busy, a writer is inside
        write b2 1 2 - | busy, a writer is inside
        read a1 1 2 r | the writer reads as well
        inspect a1:1 | a writer that reads
        release a1 1 2 w $token | the write ends, the read stays
        release a1 1 2 w $token | already, a writer
        clear
        write a1 1 2 - -> _ granted _ $token
        pass 30001
        renew a1 w $token | expired, a writer
        release a1 1 2 w $token | expired, a writer",
    );
}

/// Writers that die, and writers that are ended by force.
pub(super) fn ended_writers(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "write a1 1 2 - -> _ granted _ $lost
        pass 30001
        read b2 1 2 r | granted after a writer that died: abandoned is 1
        clear
        write a1 1 2 -
        pass 30001
        write c3 1 2 - | granted after a writer that died -> _ granted _ $next
        renew a1 w $lost | taken, a writer
        release a1 1 2 w $lost | taken, a writer
        force w c3:1 $lost now | gone, an earlier hold
        force w c3:1 $next now | a writer is ended at once
        renew c3 w $next | revoked, a writer
        release c3 1 2 w $next | revoked, a writer",
    );
}

/// Other kinds, and calls that come late.
pub(super) fn refusals(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "HSET %n k other:1
        renew a1 w 1700000000123456 | another kind
        release a1 1 2 w 1700000000123456 | another kind
        inspect - | another kind
        rwlock/holders(n) 0 | another kind
        force w a1:1 1700000000123456 now | another kind
        withdraw list redlatch:w:a1 | another kind",
    );
    let calls = [
        "rwlock/read($n) by a1 30000 630000 :1 :2 - - r",
        "rwlock/write($n) by a1 30000 630000 :1 :2 - - -",
        "rwlock/downgrade($n) by a1:1 a1:3 30000 630000 a1:2 1700000000123456 -",
    ];
    refused(bed, &calls);
}

/// The upgradable reader, and the downgrade of a writer.
pub(super) fn upgrade(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "define upgrade rwlock/write($n) by a1 30000 630000 :1 :3 5000 @a1:3 $serial
        read a1 1 2 u | an upgradable reader -> _ granted _ _ _ _ $serial
        read b2 1 2 u | busy, there is an upgradable reader
        read b2 3 4 r | a reader beside the upgradable one -> _ granted _ _ _ _ $other
        upgrade | busy, the upgrade waits for a reader
        read c3 1 2 r | busy, an upgrade waits
        release b2 3 4 r $other | the last other reader leaves, and the upgrade is told
        upgrade | the upgrade is granted -> _ granted _ $token
        write d4 1 2 1700000000000001 | lost, the upgradable hold is over
        downgrade a1:1 a1:5 a1:3 $token | the writer becomes a reader
        downgrade a1:1 a1:5 a1:3 $token | a copy of the downgrade
        undo a1 1 6
        downgrade a1:1 a1:6 a1:3 $token | void
        clear
        downgrade a1:1 a1:5 a1:3 $token | lost, gone
        write a1 1 2 - -> _ granted _ $token
        pass 30001
        downgrade a1:1 a1:5 a1:2 $token | lost, expired
        write b2 1 2 -
        downgrade a1:1 a1:5 a1:2 $token | lost, taken
        clear
        write a1 1 2 - -> _ granted _ $token
        force w a1:1 $token now
        downgrade a1:1 a1:5 a1:2 $token | lost, revoked",
    );
}

/// A clock that scripts cannot compare.
pub(super) fn ends(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "clock 999999999999999
        read a1 1 2 r | a clock before 2001
        write a1 1 2 - | a clock before 2001
        downgrade a1:1 a1:3 a1:2 17 | a clock before 2001",
    );
}

/// Several locks in one call.
pub(super) fn merged(bed: &mut Bed) {
    bed.play(WORDS);
    bed.play(
        "write b2 1 2 - -> _ granted _ $token
        SET %s text
        define three rwlock/read($m $n $s) $1 a1 30000 630000 \
            :3 :4 - - r :5 :6 - - u :7 :8 - - r
        three by | a free lock, one that is written, and one that is no hash \
            -> _ granted _ _ _ _ $serial
        three past | late, for all
        define four rwlock/write($o $m $s $o) $1 a1 30000 630000 \
            :1 :2 - - - :5 :6 - - - :7 :8 - - - :1 :12 - - -
        four by | a free lock, one that is read, one that is no hash, and again the first one \
            -> _ granted _ $own
        four past | late, for all
        pass 1000
        HSET %p k other:1
        define five rwlock/renew(m o n q p) $1 a1 30000 630000 \
            :3 r $serial :1 w $own :5 w $token :7 w $token :9 w $token
        five by | a reader and a writer are renewed, gone twice, another kind
        five past | late
        rwlock/force($o) w a1:1 $own after 600000 redlatch:w:
        rwlock/renew(o n) by a1 30000 630000 :1 w $own :5 w 1700000000000001 | revoked, taken
        define ends :3 :4 - - r $serial :1 :2 - - w $own :1 :12 - - w $own
        rwlock/release($m $o $o $n $s) a1 600000 $ends :9 :10 - - w $token :9 :10 - - r $token | \
            a read hold, both attempts of a write hold, an unknown hold, and no hash
        pass 30000
        renew b2 w $token | expired",
    );
}
