//! The actions of the scripts of the plain lock, and of other locks with one owner at a time.

use std::collections::BTreeSet;

use crate::{
    names::name_of,
    scripts::{Ran, Seen},
};

/// Reads a script in the folder `kind`.
pub(in crate::workload) fn seen(ran: &Ran<'_>, kind: &str) -> Vec<Seen> {
    let (Some(name), Some((folder, script))) = (ran.name(), ran.source.name.split_once('/')) else {
        return Vec::new();
    };
    if folder != kind {
        return Vec::new();
    }
    let seen = match (script, ran.verdict()) {
        ("acquire", "granted") => return granted(ran),
        // The caller asks once, and nobody undoes the attempt.
        ("acquire", "busy") if ran.arg(9).is_empty() => Seen::Ended {
            name,
            attempt: ran.arg(7).to_owned(),
            freed: false,
        },
        ("renew", "renewed") => Seen::Renewed {
            name,
            hold: ran.arg(6).to_owned(),
        },
        ("release", verdict) if !verdict.is_empty() => Seen::Ended {
            name,
            attempt: ran.arg(4).to_owned(),
            freed: verdict == "released" && ran.number(3) == Some(0),
        },
        ("force", "done") => Seen::Forced {
            name,
            hold: ran.arg(1).to_owned(),
            ended: ran.arg(2) == "now",
            freed: ran.arg(2) == "now",
        },
        ("withdraw", "struck") => return given(ran, name, 3),
        _ => return Vec::new(),
    };
    let report = if script == "force" { 3 } else { 4 };
    [seen].into_iter().chain(given(ran, name, report)).collect()
}

/// Reads the grant that a script has made on behalf of a waiter, from item `at` of its reply on.
pub(in crate::workload) fn given(ran: &Ran<'_>, name: usize, at: usize) -> Vec<Seen> {
    let granted = ran.text(at) == Some("granted");
    let attempt = ran.text(at + 1).filter(|_| granted);
    let attempt = attempt.map(str::to_owned);
    attempt
        .map(|attempt| Seen::Given { name, attempt })
        .into_iter()
        .collect()
}

/// Reads a grant. Several names may be granted at once.
fn granted(ran: &Ran<'_>) -> Vec<Seen> {
    let names: BTreeSet<_> = (1..=ran.keys())
        .filter_map(|at| name_of(ran.key(at)))
        .collect();
    let granted = |name| Seen::Granted {
        name,
        attempt: ran.arg(7).to_owned(),
    };
    names.into_iter().map(granted).collect()
}
