//! The two semaphores.

/// The methods of a `Workload` that both semaphores have alike.
macro_rules! pool_parts {
    () => {
        fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
            super::scripts::seen(ran)
        }

        fn waiters(&self, key: &KeyDump) -> Vec<String> {
            super::waiters(key)
        }

        fn lives(&self, key: &str, plan: &Plan) -> Option<u64> {
            super::lives(key, plan)
        }

        fn checkers(&self, names: usize) -> Vec<Box<dyn Checker>> {
            vec![Box::new(super::ledger::Ledger::new(names))]
        }
    };
}

mod ledger;
mod mutants;
mod order;
mod permits;
mod scripts;
mod semaphore;

use redlatch_embedded::engine::{Contents, KeyDump};

pub(super) use self::{permits::Permits, semaphore::Semaphore};
use super::members;
use crate::plan::Plan;

/// The number of permits of each name.
const SIZES: [u32; 3] = [1, 3, 4];

/// Returns the number of permits of name `name`.
fn size(name: usize) -> u32 {
    SIZES.get(name).copied().unwrap_or(1)
}

/// Returns the holds that are live at `now`, and a description of a wrong count of permits.
fn holders(key: &KeyDump, now: u64) -> Vec<String> {
    let Contents::Hash(fields) = &key.contents else {
        return Vec::new();
    };
    let (mut out, mut counted, mut live) = (0, 0, Vec::new());
    for (field, value) in fields {
        let (field, value) = (
            String::from_utf8_lossy(field),
            String::from_utf8_lossy(value),
        );
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

/// Returns the waiters. Other sorted sets list holds and finished operations.
fn waiters(key: &KeyDump) -> Vec<String> {
    if !key.key.ends_with(b":q") {
        return Vec::new();
    }
    members(key)
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
