//! What the scripts of the fair lock have done.

use redlatch_core::seam::Value;

use crate::scripts::{Ran, Seen};

pub(super) fn seen(ran: &Ran<'_>) -> Vec<Seen> {
    let Some(name) = ran.name() else {
        return Vec::new();
    };
    let seen = match (ran.source.name, ran.verdict()) {
        ("fair/acquire", "granted") => Seen::Granted {
            name,
            attempt: ran.arg(3).to_owned(),
        },
        ("fair/renew", "renewed") => Seen::Renewed {
            name,
            hold: ran.arg(5).to_owned(),
        },
        ("fair/release", verdict) if !verdict.is_empty() => Seen::Ended {
            name,
            attempt: ran.arg(2).to_owned(),
            freed: verdict == "released" && ran.item(3).and_then(Value::as_int) == Some(0),
        },
        _ => return Vec::new(),
    };
    vec![seen]
}
