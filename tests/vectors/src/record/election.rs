//! What an election adds to a lock of one owner.

use super::exclusive::KINDS;
use crate::Bed;

pub(super) fn terms(bed: &mut Bed) {
    bed.play(&KINDS[2].words());
    bed.play(
        "election/look(n) | vacant, and no term is remembered
        take a1 1 2 -> _ granted _ $token
        election/look(n) | led, nothing is announced
        election/announce(n) a1:1 $token node-7 PUBLISH %n:b | the leader announces its value
        pass 500
        election/look(n) | led, with the announced value
        election/announce(n) b2:1 $token node-8 PUBLISH %n:b | gone, another owner
        pass 30000
        election/look(n) | vacant, the last term is remembered
        election/announce(n) a1:1 $token node-7 PUBLISH %n:b | gone, the term is over
        take b2 1 2 -> _ granted
        election/look(n) | led, the value of an earlier term does not count
        HSET %m k other:1
        election/look(m) | another kind",
    );
}
