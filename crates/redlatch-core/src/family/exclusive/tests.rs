//! Tests that no reply makes a decoder of the exclusive kinds panic, and the vectors of clients.

mod vectors;

use redlatch_lua::{FAIR, REENTRANT};

use super::{Kind, kind::Object};
use crate::{
    base::primitive::{Identity, Primitive, Withdrawn},
    family::replies::{decodes_anything, reads_anything},
    protocol::{name::key, waiter::Discipline},
};

static PLAIN: Kind = Kind {
    label: "lock",
    stored: "lock:1",
    discipline: Discipline::Barging,
    parts: &["q"],
    scripts: &REENTRANT,
};

static FAIR_LOCK: Kind = Kind {
    label: "fair",
    stored: "fair:1",
    discipline: Discipline::Queued,
    parts: &["q", "l"],
    scripts: &FAIR.exclusive,
};

fn object(kind: &'static Kind) -> Object {
    Object {
        kind,
        identity: Identity {
            class: "".into(),
            key: key("n"),
        },
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
        let scripts = kind.scripts;
        decodes_anything(&renewed, |reply| object.renewed(&scripts.renew, reply));
        let released = ["released", "expired", "already", "revoked", "taken", "gone"];
        decodes_anything(&released, |reply| {
            let _ = object.waiting(reply);
            object.released(&scripts.release, reply)
        });
        let withdrawn = ["found", "struck", "kind"];
        reads_anything(&scripts.withdraw, &withdrawn, Withdrawn::read);
        reads_anything(&scripts.inspect, &["free", "held", "kind"], |items| {
            kind.inspected("n", items)
        });
        let forced = ["done", "already", "gone", "kind"];
        reads_anything(&scripts.force, &forced, |items| kind.forced(items));
    }
}
