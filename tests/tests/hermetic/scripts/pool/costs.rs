//! What the pool's scripts cost the server.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::calls::{Acquire, Release, change, inspect, release, renew, set};
use crate::scripts::{bed::Bed, costs::counted};

#[test]
fn uncontended_scripts_run_four_and_six_commands() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        set(&mut bed, "c:1", 10);
        for round in 0..3 {
            let attempt = format!("a:{round}");
            let call = Acquire::new(&bed, &attempt, 2).call();
            assert_eq!(counted(&mut bed, &call), ("granted".to_owned(), 4));
            let call = renew(bed.millis() + 5_000, 90_000, &[&attempt]);
            assert_eq!(counted(&mut bed, &call), ("renewed".to_owned(), 4));
            let call = release(&attempt);
            assert_eq!(counted(&mut bed, &call), ("released".to_owned(), 6));
        }
    }
}

#[test]
fn contention_costs_a_bounded_number_of_commands_however_many_wait() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 20);
    for holder in 0..20 {
        let attempt = format!("h:{holder}");
        let call = Acquire::new(&bed, &attempt, 1).call();
        assert_eq!(bed.ask(&call)[1], "granted");
    }
    let (mut worst, mut first) = (0, 0);
    for waiter in 0..2_000 {
        let attempt = format!("b:{waiter}");
        let address = format!(
            "PUBLISH w:{} {waiter}",
            if waiter % 2 == 0 { "a" } else { "b" }
        );
        let call = Acquire::new(&bed, &attempt, 1).waiting(&address).call();
        let (verdict, count) = counted(&mut bed, &call);
        assert_eq!(verdict, "busy");
        worst = worst.max(count);
        if waiter == 20 {
            first = worst;
        }
    }
    assert_eq!(worst, first, "the last waiters cost no more than the first");
    assert!(worst <= 16, "{worst}");
    // One call notifies 256 waiters at most, and the next one goes on.
    let call = change(bed.millis() + 5_000, "c:2", "add", 300, "");
    let (verdict, count) = counted(&mut bed, &call);
    assert_eq!(verdict, "done");
    assert!(count <= 13 + 2 * 256, "{count}");
    assert_eq!(bed.published().len(), 256);
    let leave = Release {
        waiter: "PUBLISH w:a 1000 1",
        holds: &["b:1000"],
        ..Release::default()
    };
    let (_, count) = counted(&mut bed, &leave.call());
    assert!(count <= 24 + 300 - 256, "{count}");
}

// L34
#[test]
fn a_hundred_thousand_expired_permits_are_taken_back_in_small_steps() {
    let mut bed = Bed::new(Model::default());
    set(&mut bed, "c:1", 100_000);
    for batch in 0..100 {
        let attempt = format!("a:{batch}");
        let mut call = Acquire::new(&bed, &attempt, 1_000);
        call.each = true;
        assert_eq!(bed.ask(&call.call())[1], "granted");
    }
    bed.pass(Duration::from_mins(2));
    let call = Acquire::new(&bed, "b:1", 1).call();
    let (verdict, count) = counted(&mut bed, &call);
    assert_eq!(verdict, "granted");
    assert!(count <= 12, "{count}");
    let (mut calls, mut worst) = (0, 0);
    loop {
        let (verdict, count) = counted(&mut bed, &inspect(None));
        worst = worst.max(count);
        calls += 1;
        if verdict == "set" {
            break;
        }
        assert_eq!(verdict, "more");
    }
    assert!(worst <= 9, "{worst} commands in one call");
    assert_eq!(calls, (100_000_usize - 64).div_ceil(64));
    assert_eq!(
        bed.ask(&inspect(None))[1..],
        ["set", "100000", "1", "0", ""]
    );
}
