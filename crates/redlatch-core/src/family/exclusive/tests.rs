//! Tests that no reply makes a decoder of the exclusive kinds panic, and the vectors of clients.

mod vectors;

use redlatch_lua::{FAIR, REENTRANT};

use super::Kind;
use crate::{family::replies::decodes_anything, protocol::waiter::Discipline};

static PLAIN: Kind = Kind::new("lock", "lock:1", Discipline::Barging, &["q"], &REENTRANT);

static FAIR_LOCK: Kind = Kind::new(
    "fair",
    "fair:1",
    Discipline::Queued,
    &["q", "l"],
    &FAIR.exclusive,
);

#[test]
fn any_reply_to_an_acquisition_is_decoded_or_refused() {
    for kind in [&PLAIN, &FAIR_LOCK] {
        decodes_anything(
            &["granted", "busy", "more", "late", "void", "kind"],
            |reply| kind.acquired(reply),
        );
        decodes_anything(
            &["granted", "busy", "more", "late", "void", "kind"],
            |reply| kind.acquired_all(3, reply),
        );
    }
}

#[test]
fn any_reply_to_a_renewal_or_release_is_decoded_or_refused() {
    for kind in [&PLAIN, &FAIR_LOCK] {
        decodes_anything(
            &[
                "renewed", "late", "expired", "taken", "revoked", "gone", "kind",
            ],
            |reply| kind.renewed(reply),
        );
        decodes_anything(
            &["released", "expired", "already", "revoked", "taken", "gone"],
            |reply| {
                let _ = kind.waiting(reply);
                kind.released(reply)
            },
        );
        decodes_anything(&["found", "struck", "kind"], |reply| kind.withdrawn(reply));
    }
}

#[test]
fn any_reply_to_a_look_or_forced_end_is_decoded_or_refused() {
    for kind in [&PLAIN, &FAIR_LOCK] {
        decodes_anything(&["free", "held", "kind"], |reply| kind.inspected(reply));
        decodes_anything(&["done", "already", "gone", "kind"], |reply| {
            kind.forced(reply)
        });
    }
}
