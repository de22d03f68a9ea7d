//! Clients of the version before grants by a release, and clients of this version, on one name.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::words::{Acquire, NAME, Release, queue};
use crate::scripts::bed::{Bed, key};

const OLD_ACQUIRE: &str = include_str!("../../../../fixtures/fair-without-grants/acquire.lua");
const OLD_RELEASE: &str = include_str!("../../../../fixtures/fair-without-grants/release.lua");

fn acquire(client: &str, n: u64, order: &str) -> Acquire {
    Acquire {
        by: 9_999_999_999_999,
        owner: format!("{client}:{n}"),
        attempt: format!("{client}:{n}"),
        lease: 30_000,
        retention: 10_000,
        register: Some(5_000),
        address: format!("PUBLISH w:{client} {n} {n}{order}"),
    }
}

fn release(bed: &mut Bed, client: &str, n: u64) -> Release {
    Release {
        owner: format!("{client}:{n}"),
        attempt: format!("{client}:{n}"),
        void: None,
        keep: 10_000,
        address: String::new(),
        token: bed.hash(&key(NAME))["t"].parse().unwrap(),
    }
}

const ORDER: &str = " g30000.40000.00000000000000ab";

#[test]
fn release_of_the_old_version_calls_a_waiter_with_an_order() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        assert_eq!(bed.ask(&acquire("a", 1, "").call())[1], "granted");
        assert_eq!(bed.ask(&acquire("b", 2, ORDER).call())[1], "busy");
        let call = release(&mut bed, "a", 1).call();
        bed.replace("fair/release", OLD_RELEASE);
        assert_eq!(bed.ask(&call)[1], "released");
        let called = ("w:b".to_owned(), format!("{} 2", key(NAME)));
        assert_eq!(bed.published(), [called]);
        assert_eq!(bed.ask(&acquire("b", 2, ORDER).call())[1], "granted");
        assert!(bed.sorted(&queue()).is_empty());
    }
}

#[test]
fn waiter_of_the_old_version_is_called_and_never_granted() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        assert_eq!(bed.ask(&acquire("a", 1, ORDER).call())[1], "granted");
        bed.replace("fair/acquire", OLD_ACQUIRE);
        assert_eq!(bed.ask(&acquire("b", 2, "").call())[1], "busy");
        let call = release(&mut bed, "a", 1).call();
        assert_eq!(bed.ask(&call)[1], "released");
        let called = ("w:b".to_owned(), format!("{} 2", key(NAME)));
        assert_eq!(bed.published(), [called]);
        assert!(!bed.hash(&key(NAME)).contains_key("o"), "nobody holds");
        assert_eq!(bed.ask(&acquire("b", 2, "").call())[1], "granted");
    }
}

#[test]
fn old_waiter_waits_for_a_granted_hold_and_gets_in_when_it_lapses() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        bed.ask(&acquire("a", 1, "").call());
        bed.ask(&acquire("b", 2, ORDER).call());
        let call = release(&mut bed, "a", 1).call();
        assert_eq!(bed.ask(&call)[1], "released");
        assert_eq!(bed.hash(&key(NAME))["o"], "b:2");
        bed.replace("fair/acquire", OLD_ACQUIRE);
        let answer = bed.ask(&acquire("a", 3, "").call());
        assert_eq!(answer[1..5], ["busy", "1", "5000", "b:2"]);
        bed.pass(Duration::from_millis(5_001));
        let answer = bed.ask(&acquire("a", 3, "").call());
        assert_eq!((&*answer[1], &*answer[4]), ("granted", "1"));
    }
}
