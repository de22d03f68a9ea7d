//! Spans of time on the command line.

use std::time::Duration;

/// Reads a span such as `30s`, `1h30m` or `500ms`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no span of time; write it as 30s, 500ms, 1h30m or 2d");
    let mut rest = text;
    let mut sum = Duration::ZERO;
    if text.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| c.is_ascii_digit());
        let (unit, next) = behind.split_at(letters.unwrap_or(behind.len()));
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(millis).map(Duration::from_millis);
        let longer = part.and_then(|part| sum.checked_add(part));
        sum = longer.ok_or_else(wrong)?;
        rest = next;
    }
    Ok(sum)
}

/// A period and its offset, such as `1d+3h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) span: Duration,
    pub(crate) offset: Duration,
}

/// Reads a period such as `1d` or `1d+3h`.
pub(crate) fn parse_period(text: &str) -> Result<Period, String> {
    let (span, offset) = match text.split_once('+') {
        Some((span, offset)) => (parse(span)?, parse(offset)?),
        None => (parse(text)?, Duration::ZERO),
    };
    Ok(Period { span, offset })
}

/// Reads a rate such as `10/s`, `100/m` or `1/90s`: tokens, and the time in which they pass.
pub(crate) fn parse_rate(text: &str) -> Result<(u64, Duration), String> {
    let wrong = || format!("{text:?} is no rate; write it as 10/s, 100/m or 1/90s");
    let (count, span) = text.split_once('/').ok_or_else(wrong)?;
    let is_unit = span.chars().all(|c| c.is_ascii_lowercase());
    let per = match is_unit {
        true => parse(&format!("1{span}")),
        false => parse(span),
    };
    match (count.parse(), per) {
        (Ok(count @ 1..), Ok(per)) if (SHORTEST..=LONGEST).contains(&per) => Ok((count, per)),
        _ => Err(wrong()),
    }
}

/// Writes a rate as [`parse_rate`] reads it, with the shortest unit in which a whole number passes.
pub(crate) fn per((count, per): (u64, Duration)) -> String {
    let (count, per) = (u128::from(count), per.as_micros().max(1));
    for (unit, seconds) in [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)] {
        let passed = count * seconds * 1_000_000;
        if passed % per == 0 {
            return format!("{}/{unit}", passed / per);
        }
    }
    match per % 1_000 {
        0 => format!("{count}/{}ms", per / 1_000),
        _ => format!("{count}/{per}µs"),
    }
}

/// The bounds of the time of a rate.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Writes a span as a person reads it: two units at most, such as `3h12m` or `4.2s`.
pub(crate) fn short(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match seconds {
        0..=9 => format!("{}.{}s", seconds, span.subsec_millis() / 100),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{minutes}m{rest:02}s"),
        3600..=86_399 => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_add_up() {
        let ms = Duration::from_millis;
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(ms(millis)), "{text}");
        }
    }

    #[test]
    fn numbers_without_a_unit_are_refused() {
        for text in ",30,s,5 s,-1s,1.5s,1w,99999999999999999999s".split(',') {
            assert!(parse(text).unwrap_err().contains("30s"), "{text}");
        }
    }

    #[test]
    fn a_period_may_have_an_offset() {
        let hours = |n: u64| Duration::from_secs(n * 3600);
        let period = |span, offset| Ok(Period { span, offset });
        assert_eq!(parse_period("1d+3h"), period(hours(24), hours(3)));
        assert_eq!(parse_period("1h"), period(hours(1), Duration::ZERO));
        for text in ["", "+3h", "1d+", "1d+3", "1d+1h+1h"] {
            assert!(parse_period(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_written_as_they_are_read() {
        let ms = Duration::from_millis;
        for (text, rate, written) in [
            ("10/s", (10, ms(1_000)), "10/s"),
            ("60/m", (60, ms(60_000)), "1/s"),
            ("100/m", (100, ms(60_000)), "100/m"),
            ("1/1h30m", (1, ms(5_400_000)), "16/d"),
            ("3/7d", (3, ms(604_800_000)), "3/604800000ms"),
            ("1/7ms", (1, ms(7)), "1/7ms"),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
            assert_eq!(per(rate), written);
        }
        assert_eq!(per((3, Duration::from_micros(7))), "3/7µs");
        for text in [
            "", "10", "/s", "0/s", "-1/s", "1.5/s", "10/", "10/x", "10/0s", "1/366d",
        ] {
            assert!(parse_rate(text).unwrap_err().contains("10/s"), "{text}");
        }
    }

    #[test]
    fn spans_are_written_with_two_units() {
        for (millis, text) in [
            (0, "0.0s"),
            (4_290, "4.2s"),
            (59_999, "59s"),
            (192_000, "3m12s"),
            (3_600_000, "1h00m"),
            (93_600_000, "1d02h"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }
}
