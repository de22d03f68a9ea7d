//! The slot that a run of a job serves.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The slot that one run of a job serves. Each slot has one success.
///
/// A slot and the token of the run are the key with which an effect is made once: the slot is the
/// same if it runs again, and the token is greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Slot {
    /// A slot of time, by the instant at which it starts, in whole milliseconds.
    Time(SystemTime),
    /// A slot with a key that the caller chose.
    Key(String),
}

impl Slot {
    /// Returns the instant at which a slot of time starts; `None` for a keyed slot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::{JobRun, Slot};
    ///
    /// let hourly = client.once("report").every(Duration::from_secs(3600));
    /// let ran = hourly.run(async |run: &JobRun| Ok::<_, String>(run.slot().clone())).await?;
    /// assert!(ran.ran().is_some_and(|slot| slot.instant().is_some()));
    /// assert_eq!(Slot::Key("v42".to_owned()).instant(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn instant(&self) -> Option<SystemTime> {
        match self {
            Self::Time(instant) => Some(*instant),
            Self::Key(_) => None,
        }
    }

    /// Returns the key of a keyed slot; `None` for a slot of time.
    ///
    /// ```
    /// use redlatch::once::Slot;
    ///
    /// assert_eq!(Slot::Key("v42".to_owned()).key(), Some("v42"));
    /// assert_eq!(Slot::Time(std::time::UNIX_EPOCH).key(), None);
    /// ```
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Time(_) => None,
            Self::Key(key) => Some(key),
        }
    }

    pub(crate) fn at(millis: u64) -> Self {
        Self::Time(instant(millis))
    }

    /// Returns the start of a slot of time, in ms since 1970.
    pub(crate) fn millis(&self) -> Option<u64> {
        self.instant().map(millis)
    }

    /// Reads the form that the server stores.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('=') {
            Some(key) => Some(Self::Key(key.to_owned())),
            None => text.parse().ok().map(Self::at),
        }
    }

    /// Returns the form that the server stores.
    pub(crate) fn stored(&self) -> String {
        match self {
            Self::Time(instant) => millis(*instant).to_string(),
            Self::Key(key) => format!("={key}"),
        }
    }
}

/// Writes a slot of time in UTC, as `2026-11-22T03:00:00Z`, and a keyed slot as its key.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(instant) => write_utc(f, millis(*instant)),
            Self::Key(key) => f.write_str(key),
        }
    }
}

/// Returns an instant of the server's clock.
pub(crate) fn instant(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// Returns the ms since 1970; zero for an earlier instant.
pub(crate) fn millis(instant: SystemTime) -> u64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    redlatch_core::family::millis(since)
}

/// Writes an instant as RFC 3339 has it, with milliseconds if there are any.
///
/// The date is computed in eras of 400 years that begin in March, so that the leap day is the last.
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub(crate) fn write_utc(f: &mut fmt::Formatter<'_>, millis: u64) -> fmt::Result {
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    write!(
        f,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    )?;
    if rest > 0 {
        write!(f, ".{rest:03}")?;
    }
    f.write_str("Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_time_is_written_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59Z"),
            (1_795_316_400_000, "2026-11-22T03:00:00Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Slot::at(millis).to_string(), text);
        }
    }

    #[test]
    fn stored_form_can_be_read_again() {
        for slot in [
            Slot::at(1_795_316_400_000),
            Slot::Key(String::new()),
            Slot::Key("=a b\nü".to_owned()),
            Slot::Key("42".to_owned()),
        ] {
            assert_eq!(Slot::parse(&slot.stored()), Some(slot));
        }
        assert_eq!(Slot::parse("soon"), None);
    }
}
