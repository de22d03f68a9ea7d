//! The actions of the scripts of a pool.

use super::size;
use crate::scripts::{Ran, Seen};

/// Returns the actions of a script, for kinds whose holds have the identities of their attempts.
pub(super) fn seen(ran: &Ran<'_>) -> Vec<Seen> {
    let Some(name) = ran.name() else {
        return Vec::new();
    };
    let given = given(ran).map(|grant| Seen::Given {
        name,
        attempt: grant.attempt.to_owned(),
    });
    let mut seen = own(ran, name);
    seen.extend(given);
    seen
}

/// A grant that a script has made on behalf of a waiter.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) attempt: &'a str,
    /// The end of the hold, in ms of the server.
    pub(super) ends: u64,
}

/// Reads the grants that a release or a withdrawal has made on behalf of waiters.
pub(super) fn given<'a>(ran: &'a Ran<'_>) -> impl Iterator<Item = Given<'a>> {
    let tells = matches!(ran.source.name, "pool/release" | "pool/withdraw");
    let first = (3..)
        .take_while(|&at| ran.item(at).is_some())
        .find(|&at| tells && ran.text(at) == Some("granted"));
    let all = first.into_iter().flat_map(|first| (first..).step_by(3));
    all.map_while(move |at| {
        let attempt = ran.text(at + 1)?;
        let ends = ran.text(at + 2)?.split('.').nth(2)?.parse().ok()?;
        Some(Given { attempt, ends })
    })
}

/// Returns what a script does for its caller.
fn own(ran: &Ran<'_>, name: usize) -> Vec<Seen> {
    match (ran.source.name, ran.verdict()) {
        // A copy of a granted request has no place in its reply, and takes nothing.
        ("pool/acquire", "granted") if ran.item(6).is_some() => vec![Seen::Granted {
            name,
            attempt: ran.arg(5).to_owned(),
        }],
        ("pool/renew", "renewed") => vec![Seen::Renewed {
            name,
            hold: ran.arg(5).to_owned(),
        }],
        ("pool/release", verdict) if !verdict.is_empty() && ran.arg(7) == "0" => {
            // With more permits, it depends on the needs of the waiters whether one can acquire.
            let freed = verdict == "released" && size(name) == 1;
            vec![Seen::Ended {
                name,
                attempt: holds(ran).next().map_or("", attempt).to_owned(),
                freed,
            }]
        }
        _ => Vec::new(),
    }
}

/// Returns the holds that a release is about.
pub(super) fn holds<'a>(ran: &'a Ran<'_>) -> impl Iterator<Item = &'a str> {
    ran.arg(9).split(' ')
}

/// Returns the attempt of a hold.
fn attempt(hold: &str) -> &str {
    match hold.match_indices(':').nth(1) {
        Some((at, _)) => &hold[..at],
        None => hold,
    }
}
