//! What a script costs the server: how many commands it runs.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::NAME;
use crate::scripts::{
    bed::{Bed, Call, Lock, Release, key},
    costs::counted,
};

const FAR: u64 = 9_999_999_999_999;

fn acquire_at(n: u64, address: &str) -> Call {
    super::acquire("a", n, address, 50_000)
}

fn acquire(n: u64) -> Call {
    acquire_at(n, &format!("PUBLISH w:{} {n} {n}", n % 40))
}

fn token(bed: &mut Bed) -> u64 {
    bed.hash(&key(NAME))["t"].parse().unwrap()
}

fn release(bed: &mut Bed, n: u64) -> Call {
    let (id, tokens) = (format!("a:{n}"), [token(bed)]);
    let release = Release {
        of: Lock::Fair,
        ..Release::new(&[NAME], &id, &id, &tokens)
    };
    release.call()
}

#[test]
fn uncontended_scripts_cost_what_those_of_the_plain_lock_cost() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        for n in 0..3 {
            let (verdict, cost) = counted(&mut bed, &acquire(n));
            assert_eq!((verdict.as_str(), cost), ("granted", 4));
            let (owner, held) = (format!("a:{n}"), [token(&mut bed)]);
            let call = Lock::Fair.renew(&[NAME], FAR, &owner, 9_000, 10_000, &held);
            assert_eq!(counted(&mut bed, &call), ("renewed".to_owned(), 4));
            let call = release(&mut bed, n);
            assert_eq!(counted(&mut bed, &call), ("released".to_owned(), 4));
        }
    }
}

#[test]
fn no_script_costs_more_in_a_long_queue() {
    let mut bed = Bed::new(Model::default());
    bed.ask(&acquire(0));
    let mut worst = 0;
    for n in 1..2_000 {
        let (verdict, cost) = counted(&mut bed, &acquire(n));
        assert_eq!(verdict, "busy");
        worst = worst.max(cost);
    }
    println!("to queue: {worst} commands at most");
    assert!(worst <= 30, "{worst} commands to queue");
    bed.published();
    for n in 0..100 {
        let call = release(&mut bed, n);
        let (verdict, cost) = counted(&mut bed, &call);
        assert_eq!(verdict, "released");
        assert!(cost <= 10, "{cost} commands to release and call");
        let called = bed.published();
        assert_eq!(called.len(), 0, "nobody listens to these channels here");
        let (verdict, cost) = counted(&mut bed, &acquire(n + 1));
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
        bed.ask(&acquire(0));
        for n in 1..=20 {
            let call = acquire_at(n, &format!("PUBLISH w:dead {n} {n}"));
            assert_eq!(bed.ask(&call)[1], "busy");
        }
        let waiting = |n| acquire_at(100 + n, &format!("PUBLISH w:living{n} {n} {n}"));
        for n in 1..clients {
            bed.ask(&waiting(n));
        }
        let call = release(&mut bed, 0);
        bed.ask(&call);
        let told: Vec<_> = (1..clients)
            .filter(|&n| bed.ask(&waiting(n))[3] == "5000")
            .collect();
        let expected = if clients <= 16 { clients - 1 } else { 0 };
        assert_eq!(told.len() as u64, expected, "{clients} clients");
    }
}

#[test]
fn dead_waiters_are_removed_in_bounded_steps() {
    let mut bed = Bed::new(Model::default());
    bed.ask(&acquire(0));
    for n in 1..=1_000 {
        bed.ask(&acquire(n));
    }
    let call = release(&mut bed, 0);
    bed.pass(Duration::from_millis(5_001));
    let (verdict, cost) = counted(&mut bed, &call);
    assert_eq!(verdict, "released");
    assert!(cost <= 2 * 64 + 12, "{cost} commands");
    // A client without dead waiters asks, while the flag of the queue still stands.
    let asker = acquire_at(5_000, "PUBLISH w:new 5000 5000");
    let mut looks = 0;
    loop {
        let (verdict, cost) = counted(&mut bed, &asker);
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
