//! Spans of time on the command line.

use std::time::Duration;

/// Reads a span such as `30s`, `1h30m` or `500ms`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no span of time; write it as 30s, 500ms, 1h30m or 2d");
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, next) = behind.split_at(letters);
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(millis).ok_or_else(wrong)?;
        sum = sum
            .checked_add(Duration::from_millis(part))
            .ok_or_else(wrong)?;
        rest = next;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Ok(sum)
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
        for text in [
            "",
            "30",
            "s",
            "5 s",
            "-1s",
            "1.5s",
            "1w",
            "99999999999999999999s",
        ] {
            assert!(parse(text).unwrap_err().contains("30s"), "{text}");
        }
    }
}
