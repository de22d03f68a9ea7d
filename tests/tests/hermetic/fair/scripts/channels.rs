//! The channels of one client: by shard, over the whole cluster, and for those who want no call.

use redlatch_embedded::engine::Model;

use super::words::{Acquire, lives, queue};
use crate::scripts::bed::Bed;

fn acquire(client: &str, n: u64, address: &str) -> Acquire {
    Acquire {
        by: 9_999_999_999_999,
        owner: format!("{client}:{n}"),
        attempt: format!("{client}:{n}"),
        lease: 1_000,
        retention: 10_000,
        register: Some(5_000),
        address: address.to_owned(),
    }
}

/// Else a client whose shard got another channel would be two, one of which nobody hears of any
/// more.
#[test]
fn waiters_belong_to_their_client_whatever_their_channel() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        bed.ask(&acquire("a", 1, "PUBLISH re:w:a 1 1").call());
        let addresses = [
            "SPUBLISH re:w:b{71} 2 2",
            "NONE re:w:b 3 3",
            "SPUBLISH re:w:b{5} 4 4",
            "PUBLISH re:w:bb 5 5",
        ];
        for (n, address) in (2..).zip(addresses) {
            let answer = bed.ask(&acquire("b", n, address).call());
            assert_eq!(answer[1], "busy");
        }
        assert_eq!(bed.sorted(&queue()).len(), 4);
        let clients: Vec<_> = bed.sorted(&lives()).into_keys().collect();
        assert_eq!(clients, ["re:w:b", "re:w:bb"]);
        // The name is free; whoever of the client looks is told which of its waiters is first.
        bed.pass(std::time::Duration::from_millis(1_500));
        let answer = bed.ask(&acquire("b", 4, addresses[2]).call());
        assert_eq!(
            (answer[1].as_str(), answer[5].as_str()),
            ("busy", "2"),
            "{answer:?}"
        );
    }
}
