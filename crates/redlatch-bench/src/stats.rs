//! Medians and other order statistics, and the format of values.

use std::time::Duration;

/// Returns the value below which `share` of the values are; NaN if there are none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Returns the median, which for an even number of values is the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Returns a quantile of times in ns, in µs.
pub(crate) fn micros(nanos: &[u64], share: f64) -> f64 {
    let values: Vec<_> = nanos.iter().map(|&nanos| nanos as f64 / 1_000.0).collect();
    quantile(&values, share)
}

/// Returns the spread of the values, as a share of their median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    (quantile(values, 1.0) - quantile(values, 0.0)) / median(values)
}

/// Formats a time in whole ms or µs.
pub(crate) fn span(time: Duration) -> String {
    match time.as_micros() {
        micros if micros % 1_000 == 0 => format!("{} ms", micros / 1_000),
        micros => format!("{micros} µs"),
    }
}

/// Formats three digits, or all digits of a large number, with commas.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() {
        return "?".to_owned();
    }
    if value.is_infinite() {
        return "∞".to_owned();
    }
    let decimals = match value.abs() {
        0.0 => 0,
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    grouped(whole) + rest
}

/// Puts commas into a whole number.
pub(crate) fn grouped(whole: &str) -> String {
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && digit != '-' && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_of_small_sets() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        let hundred: Vec<_> = (0..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.99), 99.0);
        assert_eq!(micros(&[1_000, 2_000, 3_000], 0.5), 2.0);
        assert_eq!(spread(&[1.0, 2.0, 3.0]), 1.0);
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1_234_567.0, "1,234,567"),
            (f64::INFINITY, "∞"),
            (f64::NAN, "?"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn times_are_short() {
        assert_eq!(span(Duration::from_millis(2)), "2 ms");
        assert_eq!(span(Duration::from_micros(200)), "200 µs");
        assert_eq!(span(Duration::from_micros(1_500)), "1500 µs");
    }
}
