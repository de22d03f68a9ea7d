//! Numbers as Redis reads and writes them.

use super::Model;

/// Reads an integer in the only spelling that Redis accepts: no sign but `-`, no leading zeros, no
/// spaces.
pub(super) fn parse_int(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = match digits {
        [b'0'] => bytes.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Reads a score. NaN is refused, and so is a number beyond the range of a double. Hexadecimal
/// numbers are refused too, although real servers accept them.
pub(super) fn parse_float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value: f64 = text.parse().ok()?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_nonzero = mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let out_of_range = is_nonzero && (value == 0.0 || value.is_infinite());
    (!value.is_nan() && !out_of_range).then_some(value)
}

/// Reads an end of a range of scores. Servers are more lenient here: the empty text and numbers of
/// any size are valid, and older servers skip leading spaces.
pub(super) fn parse_range_end(model: Model, bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.is_empty() {
        return Some(0.0);
    }
    let text = match model {
        Model::Valkey9_1 => text,
        _ => text.trim_start_matches(C_SPACES),
    };
    let value: f64 = text.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// Writes a score as a reply in this server's spelling.
pub(super) fn score_text(model: Model, score: f64) -> String {
    match model {
        Model::Valkey9_1 => match whole(score).filter(|whole| *whole != 0) {
            Some(whole) => whole.to_string(),
            None => shortest(score),
        },
        _ => seventeen_digits(score),
    }
}

/// Writes a Lua number as the argument of a command in this server's spelling.
pub(super) fn argument_text(model: Model, number: f64) -> String {
    match (model, whole(number)) {
        (Model::Valkey9_1, Some(whole)) => whole.to_string(),
        (Model::Valkey9_1, None) => shortest(number),
        // This branch is a faster way to the same text.
        (_, Some(whole)) if whole != 0 && whole.abs() < 1_000_000_000_000_000 => whole.to_string(),
        _ => seventeen_digits(number),
    }
}

/// Returns the number as an integer, if it is one in the range that newer servers print as an
/// integer.
fn whole(number: f64) -> Option<i64> {
    let whole = number as i64;
    (number.abs() <= WHOLE_LIMIT && whole as f64 == number).then_some(whole)
}

/// Formats a number as C's `%.17g`.
fn seventeen_digits(number: f64) -> String {
    // The range of exponents in which C writes no exponent, and its two digits otherwise.
    let is_plain = |_: i32, exponent: i32| (-4..17).contains(&exponent);
    written(number, &format!("{number:.16e}"), is_plain, 2)
}

/// Returns the shortest text that reads back as the same number, in the layout of newer servers.
fn shortest(number: f64) -> String {
    // The value is `count` digits × 10^`scale`. The limits are those of the servers.
    let is_plain = |count: i32, exponent: i32| match exponent - count + 1 {
        0.. => exponent.abs() < count + 7,
        scale => scale > -7 || exponent.abs() < 4,
    };
    written(number, &format!("{number:e}"), is_plain, 1)
}

/// Writes a number that Rust writes as `d.ddde±x`: plainly if the count of its digits and the
/// exponent of the first one ask for that, else with an exponent of at least `width` digits.
fn written(number: f64, text: &str, is_plain: fn(i32, i32) -> bool, width: usize) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let special = match number {
        _ if number.is_nan() => "nan",
        _ if number.is_infinite() => "inf",
        0.0 => "0",
        _ => "",
    };
    if !special.is_empty() {
        return format!("{sign}{special}");
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // A number that is not zero has another digit.
    let digits = digits.trim_end_matches('0');
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if is_plain(count, exponent) {
        return format!("{sign}{}", plain(digits, exponent));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    let exponent = exponent.abs();
    format!("{sign}{first}{point}{rest}e{direction}{exponent:0width$}")
}

/// Writes digits without an exponent.
fn plain(digits: &str, exponent: i32) -> String {
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("0.{}{digits}", "0".repeat(zeros));
    };
    if whole == 0 {
        format!("0.{digits}")
    } else if digits.len() <= whole {
        format!("{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// The characters that C's `strtod` skips.
const C_SPACES: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

/// Half of the largest integer, as in the check of the servers.
const WHOLE_LIMIT: f64 = (i64::MAX / 2) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        let check =
            |text: &str, expected| assert_eq!(parse_int(text.as_bytes()), expected, "{text}");
        check("0", Some(0));
        check("-1", Some(-1));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        for wrong in ",-,-0,+1,01, 1,1 ,1.0,9223372036854775808,x".split(',') {
            check(wrong, None);
        }
    }

    #[test]
    fn arguments_are_spelt_as_each_server_does() {
        let check = |number, old: &str, new: &str| {
            assert_eq!(argument_text(Model::Redis7_0, number), old);
            assert_eq!(argument_text(Model::Valkey9_1, number), new);
        };
        check(3.0, "3", "3");
        check(-3.5, "-3.5", "-3.5");
        check(0.1, "0.10000000000000001", "0.1");
        check(1e15, "1000000000000000", "1000000000000000");
        check(1e17, "1e+17", "100000000000000000");
        check(1e300, "1.0000000000000001e+300", "1e+300");
        check(-0.0, "-0", "0");
        let exact = "9007199254740992";
        check(2f64.powi(53), exact, exact);
        let (old, new) = ("9.2233720368547758e+18", "9223372036854776000");
        check(2f64.powi(63), old, new);
        check(f64::INFINITY, "inf", "inf");
        check(1e-5, "1.0000000000000001e-05", "0.00001");
        check(0.001, "0.001", "0.001");
    }
}
