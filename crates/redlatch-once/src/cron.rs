//! Cron expressions in a time zone.

use std::{fmt, str::FromStr};

use chrono::{DateTime, Datelike, MappedLocalTime, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron as Expression;

/// The longest stretch of local time that a change skips: a day, where the date line moved.
const SKIPPED: TimeDelta = TimeDelta::hours(25);

/// The longest stretch of local time that occurs twice.
const DOUBLED: TimeDelta = TimeDelta::hours(4);

/// A cron expression in a time zone.
///
/// The expression is evaluated in local time as if it had no changes, and each result is mapped to
/// an instant. A skipped local time becomes the end of the skipped stretch, and a doubled one its
/// first occurrence. So local times never map backwards.
pub(crate) struct Cron {
    expression: Expression,
    zone: Tz,
}

/// The tables of a parsed expression are thousands of characters long.
impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {}", self.expression.as_str(), self.zone)
    }
}

impl Cron {
    /// Reads an expression and the name of a zone. The error says what is wrong with which.
    pub(crate) fn parse(expression: &str, zone: &str) -> Result<Self, String> {
        let parsed = Expression::from_str(expression)
            .map_err(|error| format!("the cron expression {expression:?} is invalid: {error}"))?;
        let zone = Tz::from_str(zone).map_err(|_| {
            format!("{zone:?} is no time zone; give a name such as \"Europe/Berlin\" or \"UTC\"")
        })?;
        let cron = Self {
            expression: parsed,
            zone,
        };
        // An expression that has a time has one within a cycle of the calendar.
        if cron.next(0).is_none() {
            return Err(format!("the cron expression {expression:?} has no time"));
        }
        Ok(cron)
    }

    /// Returns the last instant at `time` or before.
    pub(crate) fn floor(&self, time: u64) -> Option<u64> {
        let now = self.local(time)?;
        // Later local times may have had their first occurrence already.
        let mut local = now.naive_local() + self.doubled(now);
        let mut inclusive = true;
        loop {
            let found = self
                .expression
                .find_previous_occurrence(&local.and_utc(), inclusive);
            local = found.ok()?.naive_utc();
            if local.year() < 1970 {
                return None;
            }
            match self.instant(local) {
                Some(instant) if instant <= time => return Some(instant),
                _ => inclusive = false,
            }
        }
    }

    /// Returns the first instant after `time`.
    pub(crate) fn next(&self, time: u64) -> Option<u64> {
        let mut local = self.local(time)?.naive_local();
        loop {
            let found = self
                .expression
                .find_next_occurrence(&local.and_utc(), false);
            local = found.ok()?.naive_utc();
            match self.instant(local) {
                Some(instant) if instant > time => return Some(instant),
                _ => {}
            }
        }
    }

    fn local(&self, time: u64) -> Option<DateTime<Tz>> {
        let now = DateTime::<Utc>::from_timestamp_millis(i64::try_from(time).ok()?)?;
        Some(now.with_timezone(&self.zone))
    }

    /// Returns by how much local time has been set back of late.
    fn doubled(&self, now: DateTime<Tz>) -> TimeDelta {
        let offset = |time: DateTime<Tz>| time.naive_local() - time.naive_utc();
        let earlier = now
            .checked_sub_signed(DOUBLED)
            .map_or(now, |earlier| earlier);
        (offset(earlier) - offset(now)).max(TimeDelta::zero())
    }

    /// Returns the instant of a local time.
    fn instant(&self, local: NaiveDateTime) -> Option<u64> {
        let mut at = local;
        let instant = loop {
            match self.zone.from_local_datetime(&at) {
                MappedLocalTime::Single(instant) | MappedLocalTime::Ambiguous(instant, _) => {
                    break instant;
                }
                MappedLocalTime::None => {
                    // Skipped stretches end at whole minutes since 1970.
                    let seconds = 60 - at.and_utc().timestamp().rem_euclid(60);
                    at = at.checked_add_signed(TimeDelta::seconds(seconds))?;
                    if at - local > SKIPPED {
                        return None;
                    }
                }
            }
        };
        u64::try_from(instant.timestamp_millis()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;

    /// Lists the slots from one instant to another, forwards, and checks that looking back from
    /// any of them finds the one before.
    fn slots(expression: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap();
        let millis = |text: &str| {
            let time = DateTime::parse_from_rfc3339(text).unwrap();
            u64::try_from(time.timestamp_millis()).unwrap()
        };
        let (mut time, end) = (millis(from), millis(to));
        let mut found = Vec::new();
        while let Some(next) = cron.next(time).filter(|&next| next <= end) {
            let last = cron.floor(time);
            assert!(last <= Some(time) && last.and_then(|last| cron.next(last)) == Some(next));
            for later in [next, next + 1, next + 999] {
                assert_eq!(cron.floor(later), Some(next), "{later}");
            }
            assert_ne!(cron.floor(next - 1), Some(next));
            found.push(Slot::at(next).to_string());
            time = next;
        }
        found
    }

    #[test]
    fn daily_job_keeps_its_local_hour_in_summer_and_winter() {
        let found = slots(
            "30 6 * * *",
            "Europe/Berlin",
            "2026-03-27T12:00:00Z",
            "2026-03-30T12:00:00Z",
        );
        let expected = ["28T05:30", "29T04:30", "30T04:30"];
        assert_eq!(found, expected.map(|at| format!("2026-03-{at}:00Z")));
    }

    /// In Berlin, 2:00 to 3:00 is skipped on 29 March 2026, and doubled on 25 October.
    #[test]
    fn skipped_local_hour_is_one_slot() {
        let found = slots(
            "*/20 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            "2026-03-30T12:00:00Z",
        );
        let expected = ["29T01:00", "30T00:00", "30T00:20", "30T00:40"];
        assert_eq!(found, expected.map(|at| format!("2026-03-{at}:00Z")));
        let hourly = slots(
            "0 * * * *",
            "Europe/Berlin",
            "2026-03-28T23:30:00Z",
            "2026-03-29T02:30:00Z",
        );
        let expected = ["00:00", "01:00", "02:00"];
        assert_eq!(hourly, expected.map(|at| format!("2026-03-29T{at}:00Z")));
    }

    #[test]
    fn doubled_local_hour_is_one_slot() {
        let found = slots(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            "2026-10-26T12:00:00Z",
        );
        let expected = ["25T00:30", "26T01:30"];
        assert_eq!(found, expected.map(|at| format!("2026-10-{at}:00Z")));
        let hourly = slots(
            "0 * * * *",
            "Europe/Berlin",
            "2026-10-24T22:30:00Z",
            "2026-10-25T03:30:00Z",
        );
        // 1:00, 2:00 the first time, 3:00, 4:00.
        let expected = ["24T23:00", "25T00:00", "25T02:00", "25T03:00"];
        assert_eq!(hourly, expected.map(|at| format!("2026-10-{at}:00Z")));
    }

    #[test]
    fn half_hour_changes_and_skipped_days_are_mapped() {
        let lord_howe = slots(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-02T20:00:00Z",
            "2026-10-05T00:00:00Z",
        );
        // 2:00 to 2:30 is skipped on 4 October.
        let expected = ["03T15:30:00Z", "04T15:15:00Z"];
        assert_eq!(lord_howe, expected.map(|at| format!("2026-10-{at}")));
        let samoa = slots(
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00:00Z",
            "2012-01-01T00:00:00Z",
        );
        // Samoa had no 30 December 2011: its slot is the end of that day.
        let expected = ["29T22:00", "30T10:00", "30T22:00", "31T22:00"];
        assert_eq!(samoa, expected.map(|at| format!("2011-12-{at}:00Z")));
    }

    #[test]
    fn nonsense_is_told_apart() {
        for (expression, zone, said) in [
            ("every day", "UTC", "is invalid"),
            ("", "UTC", "is invalid"),
            ("61 * * * *", "UTC", "is invalid"),
            ("0 0 30 2 *", "UTC", "has no time"),
            ("0 3 * * *", "Berlin", "no time zone"),
        ] {
            let error = Cron::parse(expression, zone).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn expression_with_seconds_and_a_year_ends() {
        let cron = Cron::parse("30 0 0 1 1 * 2027", "UTC").unwrap();
        let time = 1_798_761_630_000;
        assert_eq!(cron.floor(time - 1), None);
        assert_eq!(cron.next(time - 1), Some(time));
        assert_eq!((cron.floor(time), cron.next(time)), (Some(time), None));
    }
}
