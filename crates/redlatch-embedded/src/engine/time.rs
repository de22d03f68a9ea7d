//! The server's wall clock, as plain values.

use std::time::Duration;

/// An instant of a server's wall clock: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerTime(u64);

impl ServerTime {
    /// Makes the instant `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Makes the instant `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns the whole milliseconds since the Unix epoch, the unit of every expiry.
    pub const fn millis(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the instant `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros_of(span)))
    }

    /// Returns the instant `span` earlier, or the epoch if that would be before it.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros_of(span)))
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

fn micros_of(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The two clocks that a command sees. They differ inside a script on servers whose time moves
/// there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The time that `TIME` returns, and from which relative expiries count.
    pub(super) now: ServerTime,
    /// The time in milliseconds that decides whether a key has expired. In a script it is the
    /// script's start.
    pub(super) expiry: u64,
}

impl Clock {
    /// Returns the clocks of a command outside of scripts.
    pub(super) const fn at(now: ServerTime) -> Self {
        Self {
            now,
            expiry: now.millis(),
        }
    }
}
