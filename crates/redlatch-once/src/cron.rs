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
/// an instant. A skipped local time becomes the end of the skipped stretch. A doubled local time is
/// its first occurrence, or both if the expression fires in each hour of a day.
pub(crate) struct Cron {
    expression: Expression,
    zone: Tz,
    /// Whether it fires in each hour of a day, and so in both passes of a doubled stretch.
    hourly: bool,
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
            hourly: parsed.pattern.hours.values().len() == 24,
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
        let earlier = now.checked_sub_signed(DOUBLED).unwrap_or(now);
        let mut local = now.naive_local() + set_back(earlier, now);
        let (mut best, mut inclusive) = (None, true);
        loop {
            let found = self
                .expression
                .find_previous_occurrence(&local.and_utc(), inclusive);
            let Ok(found) = found else { return best };
            local = found.naive_utc();
            inclusive = false;
            if local.year() < 1970 {
                return best;
            }
            if let Some(both) = self.instants(local) {
                best = best.max(both.into_iter().filter(|&at| at <= time).max());
                // Earlier local times have no later instants.
                if best >= Some(both[1]) {
                    return best;
                }
            }
        }
    }

    /// Returns the first instant after `time`.
    pub(crate) fn next(&self, time: u64) -> Option<u64> {
        let now = self.local(time)?;
        // Earlier local times may have their second occurrence yet.
        let later = now.checked_add_signed(DOUBLED).unwrap_or(now);
        let mut local = now.naive_local() - set_back(now, later);
        let mut best = None;
        loop {
            let found = self
                .expression
                .find_next_occurrence(&local.and_utc(), false);
            let Ok(found) = found else { return best };
            local = found.naive_utc();
            if let Some(both) = self.instants(local) {
                let known = both.into_iter().chain(best);
                best = known.filter(|&at| at > time).min();
                // Later local times have no earlier instants.
                if best.is_some_and(|best| best <= both[0]) {
                    return best;
                }
            }
        }
    }

    fn local(&self, time: u64) -> Option<DateTime<Tz>> {
        let now = DateTime::<Utc>::from_timestamp_millis(i64::try_from(time).ok()?)?;
        Some(now.with_timezone(&self.zone))
    }

    /// Returns the first and the last instant of a local time at which the expression fires.
    fn instants(&self, local: NaiveDateTime) -> Option<[u64; 2]> {
        let mut at = local;
        let both = loop {
            match self.zone.from_local_datetime(&at) {
                MappedLocalTime::Ambiguous(first, second) if self.hourly => break [first, second],
                MappedLocalTime::Single(instant) | MappedLocalTime::Ambiguous(instant, _) => {
                    break [instant, instant];
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
        let [first, last] = both.map(|instant| u64::try_from(instant.timestamp_millis()).ok());
        Some([first?, last?])
    }
}

/// Returns by how much local time is set back from one time to a later one.
fn set_back(from: DateTime<Tz>, to: DateTime<Tz>) -> TimeDelta {
    let offset = |time: DateTime<Tz>| time.naive_local() - time.naive_utc();
    (offset(from) - offset(to)).max(TimeDelta::zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;

    /// Lists the slots from one minute to another, forwards, and checks that looking back from
    /// any of them finds the one before.
    fn slots(expression: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap();
        let millis = |text: &str| {
            let time = DateTime::parse_from_rfc3339(&format!("{text}:00Z")).unwrap();
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

    /// Expression, zone, begin, end, and the slots in between in UTC, each row below its reason.
    ///
    /// In Berlin, 2:00 to 3:00 is skipped on 29 March 2026, and doubled on 25 October. On Lord Howe
    /// Island, half an hour is skipped on 4 October 2026 from 2:00, and doubled on 5 April from
    /// 1:30. Samoa had no 30 December 2011.
    const TABLE: &str = "
a daily job keeps its local hour in summer and winter
30 6 * * *|Europe/Berlin|2026-03-27T12:00|2026-03-30T12:00|28T05:30 29T04:30 30T04:30
a skipped local hour is one slot
*/20 2 * * *|Europe/Berlin|2026-03-28T12:00|2026-03-30T12:00|29T01:00 30T00:00 30T00:20 30T00:40
0 * * * *|Europe/Berlin|2026-03-28T23:30|2026-03-29T02:30|29T00:00 29T01:00 29T02:00
a doubled local hour is one slot
30 2 * * *|Europe/Berlin|2026-10-24T12:00|2026-10-26T12:00|25T00:30 26T01:30
2:00 the first time, then 3:00 and 4:00, where only some hours are named
0 2-23 * * *|Europe/Berlin|2026-10-24T22:30|2026-10-25T03:30|25T00:00 25T02:00 25T03:00
a job of every 20 minutes has its slots in both passes of a doubled half hour
*/20 * * * *|Australia/Lord_Howe|2026-04-04T14:20|2026-04-04T15:40|04T14:40 04T15:10 04T15:30
a slot in a skipped half hour begins behind it
15 2 * * *|Australia/Lord_Howe|2026-10-02T20:00|2026-10-05T00:00|03T15:30 04T15:15
the slot of a skipped day is the end of that day
0 12 * * *|Pacific/Apia|2011-12-29T00:00|2012-01-01T00:00|29T22:00 30T10:00 30T22:00 31T22:00
";

    #[test]
    fn slots_follow_the_clocks_of_their_zone() {
        for row in TABLE.lines().filter(|line| line.contains('|')) {
            let cells: Vec<_> = row.split('|').collect();
            let found = slots(cells[0], cells[1], cells[2], cells[3]);
            let (month, expected) = (&cells[2][..7], cells[4].split(' '));
            let expected: Vec<_> = expected.map(|at| format!("{month}-{at}:00Z")).collect();
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn job_of_each_hour_fires_in_both_passes_of_a_doubled_hour() {
        let [from, to] = ["2026-10-24T23:30", "2026-10-25T02:00"];
        for expression in ["0 * * * *", "@hourly", "0 0 * * * *", "0 0-23 * * *"] {
            let found = slots(expression, "Europe/Berlin", from, to);
            let expected = ["00:00", "01:00", "02:00"];
            assert_eq!(found, expected.map(|at| format!("2026-10-25T{at}:00Z")));
        }
        let found = slots("*/15 * * * *", "Europe/Berlin", from, to);
        assert_eq!(found.len(), 10, "{found:?}");
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
