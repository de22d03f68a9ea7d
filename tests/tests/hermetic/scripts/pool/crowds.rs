//! More waiters of a pool than one call looks at.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::{
    calls::{Acquire, list, notified, release, set, tickets, wait, waiting},
    waiters::{ORDER, full, with_order},
};
use crate::scripts::bed::{Bed, key};

/// The permits of one hold are for 300 waiters: 256 get theirs by the release, and one of the
/// others looks.
#[test]
fn release_for_more_waiters_than_one_call_serves_makes_another_look() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 300);
    let all = Acquire::new(&bed, "h:1", 300).call();
    assert_eq!(bed.ask(&all)[1], "granted");
    let ask = |bed: &mut Bed, n: u64| {
        let (attempt, address) = (format!("a:{n}"), format!("PUBLISH w:a {n}"));
        let mut call = Acquire::new(bed, &attempt, 1).waiting(&address);
        call.order = ORDER;
        bed.ask(&call.call()).swap_remove(1)
    };
    for n in 1..=300 {
        assert_eq!(ask(&mut bed, n), "busy");
    }
    bed.ask(&release("h:1"));
    let messages = bed.published();
    let grants = messages.iter().filter(|(_, text)| text.contains(" g"));
    assert_eq!(grants.count(), 256);
    let look = format!("{} 285", key("x"));
    assert_eq!(messages[256..], [("w:a".to_owned(), look)]);
    assert_eq!(ask(&mut bed, 285), "granted");
    let rest: Vec<_> = (257..=300).filter(|&n| n != 285).collect();
    assert_eq!(notified(&mut bed), rest);
    for n in rest {
        assert_eq!(ask(&mut bed, n), "granted");
    }
    assert_eq!(bed.hash(&key("x"))["c"], "300");
    assert_eq!(bed.published(), []);
}

/// A script does not remove all entries of a dead client, and the one behind them can be served.
#[test]
fn waiter_behind_many_dead_ones_looks_when_the_first_is_served() {
    for ahead in [false, true] {
        let mut bed = full(2);
        let first = if ahead {
            with_order(&bed)
        } else {
            waiting(&bed, "a", 1, 1)
        };
        bed.ask(&first);
        for n in 1..=120 {
            wait(&mut bed, n, "d", 1);
        }
        for _ in 0..2 {
            wait(&mut bed, 2, "b", 1);
            bed.ask(&first);
            bed.pass(Duration::from_secs(3));
        }
        bed.ask(&list(&["h:1", "h:2"].map(release)));
        if !ahead {
            assert_eq!(notified(&mut bed), [1]);
            assert_eq!(wait(&mut bed, 1, "a", 1)[0], "granted");
        }
        let look = ("w:b".to_owned(), format!("{} 2", key("x")));
        assert_eq!(bed.published().last(), Some(&look), "{ahead}");
        while wait(&mut bed, 2, "b", 1)[0] == "more" {}
        assert_eq!(bed.hash(&key("x"))["c"], "2");
        assert_eq!(bed.sorted(&tickets()).len(), 0);
    }
}
