//! The actions of the scripts of a pool.

use redlatch_core::runtime::Value;

use super::size;
use crate::scripts::{Ran, Seen};

/// Returns the actions of a script, for kinds whose holds have the identities of their attempts.
pub(super) fn seen(ran: &Ran<'_>) -> Vec<Seen> {
    let Some(name) = ran.name() else {
        return Vec::new();
    };
    match (ran.source.name, ran.verdict()) {
        ("pool/acquire", "granted") => vec![Seen::Granted {
            name,
            attempt: ran.arg(3).to_owned(),
        }],
        ("pool/renew", "renewed") => vec![Seen::Renewed {
            name,
            hold: ran.arg(4).to_owned(),
        }],
        ("pool/release", verdict) if !verdict.is_empty() && ran.arg(6) == "0" => {
            // With more permits, it depends on the needs of the waiters whether one can acquire.
            let freed = verdict == "released" && size(name) == 1;
            vec![Seen::Ended {
                name,
                attempt: attempt(ran.arg(8)).to_owned(),
                freed,
            }]
        }
        _ => Vec::new(),
    }
}

/// Returns the attempt of a hold.
fn attempt(hold: &str) -> &str {
    match hold.match_indices(':').nth(1) {
        Some((at, _)) => &hold[..at],
        None => hold,
    }
}

/// Reads item `at` of a reply as a number.
pub(super) fn number(ran: &Ran<'_>, at: usize) -> Option<u64> {
    let item = ran.item(at)?;
    match item {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => other.as_str()?.parse().ok(),
    }
}
