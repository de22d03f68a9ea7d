//! Clients of the version before grants by a release, and clients of this version, on one lock.

use std::time::Duration;

use redlatch_embedded::engine::Model;

use super::{
    calls::{self, RETENTION},
    laws::{ask, release, write},
};
use crate::scripts::bed::{Bed, CHANNELS, Call, key};

const OLD_WRITE: &str = include_str!("../../../../fixtures/rwlock-without-grants/write.lua");
const OLD_RELEASE: &str = include_str!("../../../../fixtures/rwlock-without-grants/release.lua");

/// Returns the request of a waiter of this version.
pub(super) fn with_order(bed: &Bed, owner: &str, n: u32) -> Call {
    let mut ask = ask(bed, owner, n, true);
    let own = owner.rsplit(':').next().unwrap();
    let ttl = ask.lease + RETENTION;
    ask.member = format!("{} {own} g{}.{ttl}.{n:016x}", ask.member, ask.lease);
    ask.write("")
}

#[test]
fn release_of_the_old_version_calls_a_writer_with_an_order() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let token = write(&mut bed, "a:1", 1)[3].clone();
        let call = with_order(&bed, "b:1", 2);
        assert_eq!(bed.ask(&call)[1], "busy");
        bed.replace("rwlock/release", OLD_RELEASE);
        assert_eq!(release(&mut bed, "a:1", 1, "w", &token)[1], "released");
        let called = (CHANNELS[1].to_owned(), format!("{} 2", key("x")));
        assert_eq!(bed.published(), [called]);
        assert_eq!(bed.ask(&call)[1], "granted");
        assert!(bed.sorted(&format!("{}:q", key("x"))).is_empty());
    }
}

#[test]
fn writer_of_the_old_version_is_called_and_never_granted() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let token = write(&mut bed, "a:1", 1)[3].clone();
        bed.replace("rwlock/write", OLD_WRITE);
        assert_eq!(write(&mut bed, "b:1", 2).len(), 6, "the old reply");
        let answer = release(&mut bed, "a:1", 1, "w", &token);
        assert_eq!(answer[1..], ["released", "0", "1"]);
        let called = (CHANNELS[1].to_owned(), format!("{} 2", key("x")));
        assert_eq!(bed.published(), [called]);
        assert!(!bed.hash(&key("x")).contains_key("o"));
        assert_eq!(write(&mut bed, "b:1", 2)[1], "granted");
    }
}

#[test]
fn old_writer_waits_for_a_granted_hold_and_gets_in_when_it_lapses() {
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let token = write(&mut bed, "a:1", 1)[3].clone();
        let call = with_order(&bed, "b:1", 2);
        bed.ask(&call);
        let answer = release(&mut bed, "a:1", 1, "w", &token);
        assert_eq!(answer[1..6], ["released", "0", "0", "granted", "b:2"]);
        let granted: u64 = bed.hash(&key("x"))["t"].parse().unwrap();
        bed.replace("rwlock/write", OLD_WRITE);
        assert_eq!(write(&mut bed, "a:2", 3)[1..3], ["busy", "5000"]);
        bed.pass(Duration::from_millis(5_001));
        let next = write(&mut bed, "a:2", 3);
        assert_eq!(next[1], "granted");
        assert_eq!(next[4], "1", "nobody has released the granted hold");
        let late = calls::renew(bed.millis() + 5_000, "b:1", 60_000, "w", granted);
        assert_eq!(bed.ask(&late)[1], "taken");
    }
}
