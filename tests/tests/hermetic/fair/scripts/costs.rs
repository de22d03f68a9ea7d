//! What a script costs the server: how many commands it runs.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::words::{Acquire, NAME, Release, renew};
use crate::scripts::{
    bed::{Bed, key},
    costs::counted,
};

fn acquire(n: u64) -> Acquire {
    Acquire {
        by: 9_999_999_999_999,
        owner: format!("a:{n}"),
        attempt: format!("a:{n}"),
        lease: 50_000,
        retention: 10_000,
        register: Some(5_000),
        address: format!("PUBLISH w:{} {n} {n}", n % 40),
    }
}

fn release(bed: &mut Bed, n: u64) -> Release {
    Release {
        owner: format!("a:{n}"),
        attempt: format!("a:{n}"),
        void: None,
        keep: 10_000,
        address: String::new(),
        token: bed.hash(&key(NAME))["t"].parse().unwrap(),
    }
}

#[test]
fn uncontended_scripts_cost_what_those_of_the_plain_lock_cost() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        for n in 0..3 {
            let (verdict, cost) = counted(&mut bed, &acquire(n).call());
            assert_eq!((verdict.as_str(), cost), ("granted", 4));
            let token = bed.hash(&key(NAME))["t"].parse().unwrap();
            let call = renew(9_999_999_999_999, &format!("a:{n}"), 9_000, 10_000, token);
            assert_eq!(counted(&mut bed, &call), ("renewed".to_owned(), 4));
            let call = release(&mut bed, n).call();
            assert_eq!(counted(&mut bed, &call), ("released".to_owned(), 4));
        }
    }
}

#[test]
fn no_script_costs_more_in_a_long_queue() {
    let mut bed = Bed::new(Model::default());
    bed.ask(&acquire(0).call());
    let mut worst = 0;
    for n in 1..2_000 {
        let (verdict, cost) = counted(&mut bed, &acquire(n).call());
        assert_eq!(verdict, "busy");
        worst = worst.max(cost);
    }
    println!("to queue: {worst} commands at most");
    assert!(worst <= 30, "{worst} commands to queue");
    bed.published();
    for n in 0..100 {
        let call = release(&mut bed, n).call();
        let (verdict, cost) = counted(&mut bed, &call);
        assert_eq!(verdict, "released");
        assert!(cost <= 10, "{cost} commands to release and call");
        let called = bed.published();
        assert_eq!(called.len(), 0, "nobody listens to these channels here");
        let (verdict, cost) = counted(&mut bed, &acquire(n + 1).call());
        assert_eq!(verdict, "granted", "{n}");
        assert!(cost <= 14, "{cost} commands to take it when called");
    }
}

/// Whoever is told when the head counts as dead looks then: all clients while they are few, else
/// those of the first 16 places.
#[test]
fn bounded_number_of_clients_looks_when_the_first_waiter_dies() {
    for clients in [2, 16, 17, 60] {
        let mut bed = Bed::new(Model::default());
        bed.ask(&acquire(0).call());
        for n in 1..=20 {
            let mut call = acquire(n);
            call.address = format!("PUBLISH w:dead {n} {n}");
            assert_eq!(bed.ask(&call.call())[1], "busy");
        }
        let waiting = |n: u64| {
            let mut call = acquire(100 + n);
            call.address = format!("PUBLISH w:living{n} {n} {n}");
            call
        };
        for n in 1..clients {
            bed.ask(&waiting(n).call());
        }
        let call = release(&mut bed, 0).call();
        bed.ask(&call);
        let told: Vec<_> = (1..clients)
            .filter(|&n| bed.ask(&waiting(n).call())[3] == "5000")
            .collect();
        let expected = if clients <= 16 { clients - 1 } else { 0 };
        assert_eq!(told.len() as u64, expected, "{clients} clients");
    }
}

#[test]
fn dead_waiters_are_removed_in_bounded_steps() {
    let mut bed = Bed::new(Model::default());
    bed.ask(&acquire(0).call());
    for n in 1..=1_000 {
        bed.ask(&acquire(n).call());
    }
    let call = release(&mut bed, 0).call();
    bed.pass(Duration::from_millis(5_001));
    let (verdict, cost) = counted(&mut bed, &call);
    assert_eq!(verdict, "released");
    assert!(cost <= 2 * 64 + 12, "{cost} commands");
    // A client without dead waiters asks, while the flag of the queue still stands.
    let asker = Acquire {
        address: "PUBLISH w:new 5000 5000".to_owned(),
        ..acquire(5_000)
    };
    let mut looks = 0;
    loop {
        let (verdict, cost) = counted(&mut bed, &asker.call());
        looks += 1;
        if verdict == "granted" {
            break;
        }
        assert_eq!(verdict, "more");
        assert!(cost <= 2 * 64 + 12, "{cost} commands");
        assert!(looks < 30, "it never ends");
    }
    assert!(looks > 10, "{looks} looks remove 1,000");
}
