//! The actions of the scripts of all kinds, in terms that checkers share.

use std::collections::BTreeSet;

use super::pool;
use crate::{
    names::name_of,
    scripts::{Act, Ran, Seen},
};

/// Returns the actions of a script. Actions that no checker needs are omitted.
pub(crate) fn seen(ran: &Ran<'_>) -> Vec<Seen> {
    let (Some(name), Some(script)) = (ran.name(), ran.source.name.split_once('/')) else {
        return Vec::new();
    };
    let own = own(ran, name, script);
    let given = ran.given();
    let given = given.map(|given| Seen::new(name, Act::Given, given.attempt));
    own.into_iter().chain(given).collect()
}

/// Returns what a script does for its caller.
fn own(ran: &Ran<'_>, name: usize, (folder, script): (&str, &str)) -> Vec<Seen> {
    let verdict = ran.verdict();
    let released = verdict == "released";
    let one = |act, id: &str| vec![Seen::new(name, act, id)];
    let granted = |at| one(Act::Granted, ran.arg(at));
    let ended = |id, freed| one(Act::Ended { freed }, id);
    // Tells by an item of the reply whether nobody held the lock any more, before it was given to
    // a waiter.
    let frees = |at| ran.number(at) == Some(1) || ran.given().next().is_some();
    // Locks with one owner at a time have the same scripts.
    let kind = match folder {
        "reentrant" | "fair" | "election" | "fair_election" => "lock",
        _ => folder,
    };
    match (kind, script, verdict) {
        (_, "release", "") => Vec::new(),
        ("lock", "acquire", "granted") => {
            // Several names may be granted at once.
            let names = (1..=ran.keys()).filter_map(|at| name_of(ran.key(at)));
            let names = BTreeSet::from_iter(names).into_iter();
            let granted = names.map(|name| Seen::new(name, Act::Granted, ran.arg(7)));
            granted.collect()
        }
        // The caller asks once, and nobody undoes the attempt.
        ("lock", "acquire", "busy") if ran.arg(9).is_empty() => ended(ran.arg(7), false),
        ("lock", "renew", "renewed") => one(Act::Renewed, ran.arg(6)),
        ("lock", "release", _) => ended(ran.arg(4), released && ran.number(3) == Some(0)),
        ("lock", "force", "done") => {
            let ended = ran.arg(2) == "now";
            let freed = ended;
            one(Act::Forced { ended, freed }, ran.arg(1))
        }
        ("rwlock", "read" | "write", "granted") => granted(6),
        ("rwlock", "downgrade", "granted") => [granted(3), ended(ran.arg(6), false)].concat(),
        ("rwlock", "renew", "renewed") => one(Act::Renewed, &[ran.arg(6), ran.arg(7)].concat()),
        ("rwlock", "release", _) => ended(ran.arg(4), released && frees(4)),
        ("rwlock", "force", "done") => {
            let ended = ran.arg(4) == "now";
            let freed = ended && frees(3);
            let hold = format!("{}{}", ran.arg(1), ran.arg(3));
            one(Act::Forced { ended, freed }, &hold)
        }
        // A copy of a granted request has no place in its reply, and takes nothing.
        ("pool", "acquire", "granted") if ran.item(6).is_some() => granted(5),
        ("pool", "release", _) if ran.arg(7) == "0" => {
            // With more permits, it depends on the needs of the waiters whether one can acquire.
            let attempt = pool::released(ran).next().map_or("", pool::attempt);
            ended(attempt, released && pool::size(name) == 1)
        }
        ("pool" | "once", "renew", "renewed") => one(Act::Renewed, ran.arg(5)),
        ("once", "claim", "granted") => granted(3),
        ("once", "release", _) => ended(ran.arg(2), false),
        ("latch", "set", "set") => granted(2),
        ("latch", "count_down", "counted") | ("latch", "delete", "deleted") => granted(2),
        ("limit", "acquire", "passed") if ran.number(3) > Some(0) && ran.number(7).is_some() => {
            granted(4)
        }
        _ => Vec::new(),
    }
}
