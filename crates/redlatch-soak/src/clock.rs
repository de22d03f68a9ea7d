//! One clock for all processes of a run.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the microseconds of this machine's monotonic clock, which all its processes share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000
}

/// Returns a span of `micros` microseconds.
pub(crate) const fn span(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
