//! The actions of the scripts of all kinds, in terms that checkers share.

use std::collections::BTreeSet;

use super::pool;
use crate::{
    names::name_of,
    scripts::{Act, Ran, Seen},
};

/// Returns the actions of a script. Actions that no checker needs are omitted.
pub(crate) fn seen(ran: &Ran<'_>) -> Vec<Seen> {
    let (Some(name), Some((folder, script))) = (ran.name(), ran.source.name.split_once('/')) else {
        return Vec::new();
    };
    let own = match folder {
        "reentrant" | "fair" | "election" | "fair_election" => of_lock(ran, name, script),
        _ => of_other(ran, name, (folder, script)),
    };
    let given = ran.given();
    let given = given.map(|given| Seen::new(name, Act::Given, given.attempt));
    own.into_iter().chain(given).collect()
}

/// Returns what a script of a lock with one owner at a time does for its caller.
fn of_lock(ran: &Ran<'_>, name: usize, script: &str) -> Vec<Seen> {
    let seen = match (script, ran.verdict()) {
        ("acquire", "granted") => {
            // Several names may be granted at once.
            let names = (1..=ran.keys()).filter_map(|at| name_of(ran.key(at)));
            let names = BTreeSet::from_iter(names).into_iter();
            return names
                .map(|name| Seen::new(name, Act::Granted, ran.arg(7)))
                .collect();
        }
        // The caller asks once, and nobody undoes the attempt.
        ("acquire", "busy") if ran.arg(9).is_empty() => {
            Seen::new(name, Act::Ended { freed: false }, ran.arg(7))
        }
        ("renew", "renewed") => Seen::new(name, Act::Renewed, ran.arg(6)),
        ("release", verdict) if !verdict.is_empty() => {
            let freed = verdict == "released" && ran.number(3) == Some(0);
            Seen::new(name, Act::Ended { freed }, ran.arg(4))
        }
        ("force", "done") => {
            let ended = ran.arg(2) == "now";
            let freed = ended;
            Seen::new(name, Act::Forced { ended, freed }, ran.arg(1))
        }
        _ => return Vec::new(),
    };
    vec![seen]
}

/// Returns what another script does for its caller.
fn of_other(ran: &Ran<'_>, name: usize, script: (&str, &str)) -> Vec<Seen> {
    let granted = |at| Seen::new(name, Act::Granted, ran.arg(at));
    // Tells by an item of the reply whether nobody held the lock any more, before it was given to
    // a waiter.
    let frees = |at| ran.number(at) == Some(1) || ran.given().next().is_some();
    let seen = match (script, ran.verdict()) {
        (("rwlock", "read" | "write"), "granted") => granted(6),
        (("rwlock", "downgrade"), "granted") => {
            return vec![
                granted(3),
                Seen::new(name, Act::Ended { freed: false }, ran.arg(6)),
            ];
        }
        (("rwlock", "renew"), "renewed") => {
            Seen::new(name, Act::Renewed, format!("{}{}", ran.arg(6), ran.arg(7)))
        }
        (("rwlock", "release"), verdict) if !verdict.is_empty() => {
            let freed = verdict == "released" && frees(4);
            Seen::new(name, Act::Ended { freed }, ran.arg(4))
        }
        (("rwlock", "force"), "done") => {
            let hold = format!("{}{}", ran.arg(1), ran.arg(3));
            let ended = ran.arg(4) == "now";
            let freed = ended && frees(3);
            Seen::new(name, Act::Forced { ended, freed }, hold)
        }
        // A copy of a granted request has no place in its reply, and takes nothing.
        (("pool", "acquire"), "granted") if ran.item(6).is_some() => granted(5),
        (("pool", "release"), verdict) if !verdict.is_empty() && ran.arg(7) == "0" => {
            // With more permits, it depends on the needs of the waiters whether one can acquire.
            let freed = verdict == "released" && pool::size(name) == 1;
            let attempt = pool::released(ran).next().map_or("", pool::attempt);
            Seen::new(name, Act::Ended { freed }, attempt)
        }
        (("pool" | "once", "renew"), "renewed") => Seen::new(name, Act::Renewed, ran.arg(5)),
        (("once", "claim"), "granted") => granted(3),
        (("once", "release"), verdict) if !verdict.is_empty() => {
            Seen::new(name, Act::Ended { freed: false }, ran.arg(2))
        }
        (("latch", "set"), "set")
        | (("latch", "count_down"), "counted")
        | (("latch", "delete"), "deleted") => granted(2),
        (("limit", "acquire"), "passed") if ran.number(3) > Some(0) && ran.number(7).is_some() => {
            granted(4)
        }
        _ => return Vec::new(),
    };
    vec![seen]
}
