//! The channels of one client: by shard, over the whole cluster, and for those who want no call.

use redlatch_embedded::engine::Model;

use super::NAME;
use crate::scripts::bed::{Bed, Call, lives, queue};

fn acquire(client: &str, n: u64, address: &str) -> Call {
    super::acquire(client, n, address, 1_000)
}

/// Else a client whose shard got another channel would be two, one of which nobody hears of any
/// more.
#[test]
fn waiters_belong_to_their_client_whatever_their_channel() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        bed.ask(&acquire("a", 1, "PUBLISH re:w:a 1 1"));
        let addresses = [
            "SPUBLISH re:w:b{71} 2 2",
            "NONE re:w:b 3 3",
            "SPUBLISH re:w:b{5} 4 4",
            "PUBLISH re:w:bb 5 5",
        ];
        for (n, address) in (2..).zip(addresses) {
            let answer = bed.ask(&acquire("b", n, address));
            assert_eq!(answer[1], "busy");
        }
        assert_eq!(bed.sorted(&queue(NAME)).len(), 4);
        let clients: Vec<_> = bed.sorted(&lives(NAME)).into_keys().collect();
        assert_eq!(clients, ["re:w:b", "re:w:bb"]);
        // The name is free; whoever of the client looks is told which of its waiters is first.
        bed.pass(std::time::Duration::from_millis(1_500));
        let answer = bed.ask(&acquire("b", 4, addresses[2]));
        assert_eq!(
            (answer[1].as_str(), answer[5].as_str()),
            ("busy", "2"),
            "{answer:?}"
        );
    }
}
