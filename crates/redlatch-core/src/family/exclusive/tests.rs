//! Tests that no reply makes a decoder of the exclusive kinds panic, and the vectors of clients.

mod vectors;

use redlatch_lua::{FAIR, REENTRANT};

use super::{Kind, kind::Object};
use crate::{
    base::primitive::Primitive,
    family::replies::decodes_anything,
    protocol::{name::key, waiter::Discipline},
};

static PLAIN: Kind = Kind::new("lock", "lock:1", Discipline::Barging, &["q"], &REENTRANT);

static FAIR_LOCK: Kind = Kind::new(
    "fair",
    "fair:1",
    Discipline::Queued,
    &["q", "l"],
    &FAIR.exclusive,
);

fn object(kind: &'static Kind) -> Object {
    Object {
        kind,
        key: key("n"),
        class: "".into(),
    }
}

#[test]
fn any_reply_is_decoded_or_refused() {
    for kind in [&PLAIN, &FAIR_LOCK] {
        let object = object(kind);
        let acquired = ["granted", "busy", "more", "late", "void", "kind"];
        decodes_anything(&acquired, |reply| object.acquired(reply));
        decodes_anything(&acquired, |reply| object.acquired_all(3, reply));
        let renewed = [
            "renewed", "late", "expired", "taken", "revoked", "gone", "kind",
        ];
        decodes_anything(&renewed, |reply| object.renewed(reply));
        let released = ["released", "expired", "already", "revoked", "taken", "gone"];
        decodes_anything(&released, |reply| {
            let _ = object.waiting(reply);
            object.released(reply)
        });
        decodes_anything(&["found", "struck", "kind"], |reply| {
            object.withdrawn(reply)
        });
        decodes_anything(&["free", "held", "kind"], |reply| {
            kind.inspected("n", reply)
        });
        let forced = ["done", "already", "gone", "kind"];
        decodes_anything(&forced, |reply| kind.forced(reply));
    }
}
