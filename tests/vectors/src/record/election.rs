//! What an election adds to a lock of one owner.

use super::exclusive::KINDS;
use crate::Bed;

pub(super) fn terms(bed: &mut Bed) {
    let (announce, look, kind) = ("election/announce", "election/look", &KINDS[2]);
    bed.call("vacant, and no term is remembered", look, "n", "");
    let token = kind.take(bed, "n", "a1", 2);
    bed.call("led, nothing is announced", look, "n", "");
    let value = format!("a1:1 {token} node-7 PUBLISH %n:b");
    bed.call("the leader announces its value", announce, "n", &value);
    bed.pass(500);
    bed.call("led, with the announced value", look, "n", "");
    let other = format!("b2:1 {token} node-8 PUBLISH %n:b");
    bed.call("gone, another owner", announce, "n", &other);
    bed.pass(30_000);
    bed.call("vacant, the last term is remembered", look, "n", "");
    bed.call("gone, the term is over", announce, "n", &value);
    kind.take(bed, "n", "b2", 2);
    bed.call(
        "led, the value of an earlier term does not count",
        look,
        "n",
        "",
    );
    bed.put("HSET %m k other:1");
    bed.call("another kind", look, "m", "");
}
