//! More waiters and holds of a pool than one call looks at, and what they cost.

use super::{
    calls::{change, inspect, notified, release, set, wait},
    waiters::{attempt, full},
};
use crate::scripts::prelude::*;

/// The permits of one hold are for 300 waiters: 256 get theirs by the release, and one of the
/// others looks.
#[test]
fn release_for_more_waiters_than_one_call_serves_makes_another_look() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 300);
    let all = attempt(&bed, "h", 1).need(300);
    all.gets(&mut bed, "granted");
    let ask = |bed: &mut Bed, n: u64| {
        let ask = attempt(bed, "a", n).ordered();
        bed.ask(&ask.call()).swap_remove(1)
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
        let first = attempt(&bed, "a", 1);
        let first = match ahead {
            true => first.ordered().call(),
            false => first.waiting().call(),
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
        assert_eq!(bed.sorted(&part("x", "q")).len(), 0);
    }
}

#[test]
fn contention_costs_a_bounded_number_of_commands_however_many_wait() {
    let mut bed = full(20);
    let (mut worst, mut first) = (0, 0);
    for waiter in 0..2_000 {
        let client = ["a", "b"][waiter as usize % 2];
        let ask = attempt(&bed, "b", waiter);
        let ask = ask.at(&format!("PUBLISH w:{client} {waiter} 1"));
        worst = worst.max(at_most(&mut bed, &ask.call(), ("busy", 16)));
        if waiter == 20 {
            first = worst;
        }
    }
    assert_eq!(worst, first, "the last waiters cost no more than the first");
    // One call notifies 256 waiters at most, and the next one goes on.
    let call = change(bed.millis() + 5_000, "c:2", "add", 300, "");
    at_most(&mut bed, &call, ("done", 13 + 2 * 256));
    assert_eq!(bed.published().len(), 256);
    let mut leave = release("b:1000");
    leave.args[5] = "PUBLISH w:a 1000 1".to_owned();
    at_most(&mut bed, &leave, ("gone", 24 + 300 - 256));
}

// L34
#[test]
fn a_hundred_thousand_expired_permits_are_taken_back_in_small_steps() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 100_000);
    for batch in 0..100 {
        let ask = Ask::new(Of::Each, &bed, "a", batch).need(1_000);
        ask.gets(&mut bed, "granted");
    }
    bed.pass(Duration::from_mins(2));
    let call = attempt(&bed, "b", 1).call();
    at_most(&mut bed, &call, ("granted", 12));
    let calls = exhaust(&mut bed, &inspect(), ("set", 9));
    assert_eq!(calls, (100_000_usize - 64).div_ceil(64));
    let left = bed.ask(&inspect());
    assert_eq!(left[1..], ["set", "100000", "1", "0", ""]);
}
