//! Clients of the version before grants by a release, and clients of this version, on one pool.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::calls::{Acquire, release, renew, set, tickets};
use crate::scripts::bed::{Bed, Call, key};

const OLD_ACQUIRE: &str = include_str!("../../../../fixtures/pool-without-grants/acquire.lua");
const OLD_RELEASE: &str = include_str!("../../../../fixtures/pool-without-grants/release.lua");
const ORDER: &str = "g60000.70000.00000000000000ab";

fn full(model: Model) -> Bed {
    let mut bed = Bed::new(model);
    set(&mut bed, "c:1", 1);
    let call = Acquire::new(&bed, "a:1", 1).call();
    assert_eq!(bed.ask(&call)[1], "granted");
    bed
}

/// Returns the request of a waiter of this version.
fn waits(bed: &Bed) -> Call {
    let mut call = Acquire::new(bed, "b:2", 1).waiting("PUBLISH w:b 2");
    call.order = ORDER;
    call.call()
}

/// Returns the request of a waiter of the old version, whose script adds the permits to the
/// address.
fn old_waits(bed: &Bed, attempt: &str, address: &str) -> Call {
    let mut call = Acquire::new(bed, attempt, 1).waiting(address).call();
    call.args[7] = address.to_owned();
    call
}

#[test]
fn release_of_the_old_version_calls_a_waiter_with_an_order() {
    for model in Model::ALL {
        let mut bed = full(model);
        let call = waits(&bed);
        assert_eq!(bed.ask(&call)[1], "busy");
        bed.replace("pool/release", OLD_RELEASE);
        assert_eq!(bed.ask(&release("a:1"))[1], "released");
        let called = ("w:b".to_owned(), format!("{} 2", key("x")));
        assert_eq!(bed.published(), [called]);
        assert_eq!(bed.ask(&call)[1], "granted");
        assert!(bed.sorted(&tickets()).is_empty());
    }
}

#[test]
fn waiter_of_the_old_version_is_called_and_never_granted() {
    for model in Model::ALL {
        let mut bed = full(model);
        bed.replace("pool/acquire", OLD_ACQUIRE);
        let call = old_waits(&bed, "b:2", "PUBLISH w:b 2");
        assert_eq!(bed.ask(&call)[1], "busy");
        assert_eq!(bed.ask(&release("a:1"))[1], "released");
        let called = ("w:b".to_owned(), format!("{} 2", key("x")));
        assert_eq!(bed.published(), [called]);
        assert_eq!(bed.hash(&key("x"))["c"], "0");
        assert_eq!(bed.ask(&call)[1], "granted");
    }
}

#[test]
fn old_waiter_waits_for_a_granted_hold_and_gets_in_when_it_lapses() {
    for model in Model::ALL {
        let mut bed = full(model);
        let call = waits(&bed);
        bed.ask(&call);
        assert_eq!(bed.ask(&release("a:1"))[3..5], ["granted", "b:2"]);
        bed.replace("pool/acquire", OLD_ACQUIRE);
        let call = old_waits(&bed, "c:3", "PUBLISH w:c 3");
        assert_eq!(bed.ask(&call)[1..3], ["busy", "5000"]);
        bed.pass(Duration::from_millis(5_001));
        let call = old_waits(&bed, "c:3", "PUBLISH w:c 3");
        assert_eq!(bed.ask(&call)[1], "granted");
        let late = renew(bed.millis() + 5_000, 60_000, &["b:2"]);
        assert_eq!(bed.ask(&late)[1], "gone");
    }
}
