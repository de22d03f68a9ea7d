//! The two semaphores.

mod ledger;
mod permits;
mod semaphore;

use redlatch_embedded::engine::{Contents, KeyDump};

use self::{ledger::Pool, semaphore::Units};
use super::{Workload, mutants};
use crate::{plan::Plan, scripts::Ran, watch::each};

/// The semaphore, as a workload.
pub(super) static SEMAPHORE: Workload =
    pooled(Workload::of::<Units>("semaphore", mutants::SEMAPHORE));

/// The permit-expirable semaphore, as a workload.
pub(super) static PERMITS: Workload = Workload {
    holders: permits::nameless,
    ..pooled(Workload::new(
        "permits",
        mutants::PERMITS,
        |worker| Box::pin(permits::round(worker)),
        |worker, name| Box::pin(permits::get_on(worker, name)),
    ))
};

/// Adds what both semaphores have alike.
const fn pooled(kind: Workload) -> Workload {
    Workload {
        holders,
        lives,
        checkers: |_| vec![each::<Pool>()],
        ..kind
    }
}

/// The number of permits of each name.
const SIZES: [u32; 3] = [1, 3, 4];

/// Returns the number of permits of name `name`.
pub(super) fn size(name: usize) -> u32 {
    SIZES.get(name).copied().unwrap_or(1)
}

/// Returns the holds that are live at `now`, and a description of a wrong count of permits.
fn holders(key: &KeyDump, now: u64) -> Vec<String> {
    let Contents::Hash(fields) = &key.contents else {
        return Vec::new();
    };
    let (mut out, mut counted, mut live) = (0, 0, Vec::new());
    for (field, value) in fields {
        let text = String::from_utf8_lossy;
        let (field, value) = (text(field), text(value));
        if field == "c" {
            counted = value.parse().unwrap_or(0);
        }
        let Some(hold) = field.strip_prefix("h:") else {
            continue;
        };
        let mut numbers = value.split(' ').filter_map(|text| text.parse::<u64>().ok());
        let (until, permits) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        out += permits;
        // What a client has withdrawn has no permits, and refuses copies for a while.
        if until > now && permits > 0 {
            live.push(hold.to_owned());
        }
    }
    if out != counted {
        live.push(format!("nobody, of {counted} permits where {out} are out,"));
    }
    live
}

/// Returns the lifetime of a key. A size stays until it is deleted, and so does the index; an
/// operation is remembered for half a minute.
fn lives(key: &str, plan: &Plan) -> Option<u64> {
    match key.rsplit_once(':') {
        Some((_, "q" | "l")) => Some(plan.unused()),
        Some((_, "o" | "p")) => Some(30_000 + plan.beyond()),
        _ => None,
    }
}

/// Returns the holds that a release is about.
pub(super) fn released<'a>(ran: &'a Ran<'_>) -> impl Iterator<Item = &'a str> {
    ran.arg(9).split(' ')
}

/// Returns the attempt of a hold.
pub(super) fn attempt(hold: &str) -> &str {
    match hold.match_indices(':').nth(1) {
        Some((at, _)) => &hold[..at],
        None => hold,
    }
}
