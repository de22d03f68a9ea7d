//! The scripts of the fair lock by themselves, on the embedded engine.

use crate::scripts::bed::{Acquire, Call, Lock};

mod channels;
mod costs;
mod fuzz;
mod model;

/// The one name.
const NAME: &str = "x";

/// Returns the request of a client's attempt `n`, which is its own owner.
fn acquire(client: &str, n: u64, address: &str, lease: u64) -> Call {
    let id = format!("{client}:{n}");
    let acquire = Acquire {
        of: Lock::Fair,
        names: &[NAME],
        by: 9_999_999_999_999,
        owner: &id,
        attempt: &id,
        lease,
        retention: 10_000,
        register: Some(5_000),
        address,
    };
    acquire.call()
}
