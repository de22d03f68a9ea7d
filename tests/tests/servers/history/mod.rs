//! Histories of many processes under faults: jobs of processes whose clocks are wrong, and terms of
//! leaders and permits of holders that are killed and suspended.
//!
//! By itself the tests run a short history. `cargo xtask check load` sets [`LONG`], and they run
//! the long one: 20 processes and 200 slots, 100 kills of leaders.

mod crew;
mod jobs;
mod line;
mod permits;
mod poll;
mod process;
mod terms;

/// The variable that asks for the long history.
const LONG: &str = "REDLATCH_LONG_HISTORY";

/// Returns `long` if the long history is asked for, and `short` otherwise.
fn by_length<T>(short: T, long: T) -> T {
    if std::env::var_os(LONG).is_some() {
        long
    } else {
        short
    }
}
