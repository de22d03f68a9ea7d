//! When two replies count as the same.

use std::time::Duration;

use redlatch_core::runtime::{Command, Reply, Value};

/// Tells whether engine and server have answered the same. No round since the data were empty has
/// taken longer than `longest`. Without `exact_texts` the server is newer than its model, and may
/// word errors and write scores differently.
pub(crate) fn same(
    command: &Command,
    (ours, theirs): (&Reply, &Reply),
    exact_texts: bool,
    longest: Duration,
) -> bool {
    let slack = clock_slack(command);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if is_unordered(command) => sorted(ours) == sorted(theirs),
        // Below 0 there is no time, and each time is rounded.
        (Ok(Value::Int(ours @ 0..)), Ok(Value::Int(theirs @ 0..)))
            if is_named(command, b"PTTL") && *ours.min(theirs) <= SHORT =>
        {
            u128::from(ours.abs_diff(*theirs)) <= longest.as_millis() + 1
        }
        (Ok(ours), Ok(theirs)) => same_value(ours, theirs, &|ours, theirs| {
            let score = |value| text(value).parse::<f64>().ok();
            let rewritten = !exact_texts && score(ours).is_some_and(|a| score(theirs) == Some(a));
            rewritten || slack > 0 && same_but_for_times(&text(ours), &text(theirs), slack)
        }),
        (Err(ours), Err(theirs)) if exact_texts => ours == theirs,
        (Err(ours), Err(theirs)) => ours.code == theirs.code,
        _ => false,
    }
}

/// How far remaining times may differ: the engine's clock stands still during a round, the server's
/// does not.
fn clock_slack(command: &Command) -> i64 {
    let mentions = |what: &[u8]| {
        let mut windows = command.args().flat_map(|arg| arg.windows(what.len()));
        windows.any(|window| window.eq_ignore_ascii_case(what))
    };
    if mentions(b"ttl") { 5000 } else { 0 }
}

fn is_unordered(command: &Command) -> bool {
    is_named(command, b"KEYS") || is_named(command, b"SCAN")
}

fn is_named(command: &Command, other: &[u8]) -> bool {
    let name = command.args().next().unwrap_or_default();
    name.eq_ignore_ascii_case(other)
}

/// Compares values whose numbers and texts count as the same if `near` says so.
fn same_value(ours: &Value, theirs: &Value, near: &dyn Fn(&Value, &Value) -> bool) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            let pairs = || ours.iter().zip(theirs);
            ours.len() == theirs.len() && pairs().all(|(a, b)| same_value(a, b, near))
        }
        _ if ours == theirs => true,
        (Value::Int(_) | Value::Bulk(_), Value::Int(_) | Value::Bulk(_)) => near(ours, theirs),
        _ => false,
    }
}

/// Compares texts that may differ in numbers large enough to be times, wherever they are.
fn same_but_for_times(ours: &str, theirs: &str, slack: i64) -> bool {
    let (ours, theirs) = (pieces(ours), pieces(theirs));
    let near = |a: &str, b: &str| match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a.min(b) > SHORT && a.abs_diff(b) <= slack.unsigned_abs(),
        _ => false,
    };
    let mut pairs = ours.iter().zip(&theirs);
    ours.len() == theirs.len() && pairs.all(|(a, b)| a == b || near(a, b))
}

/// Splits a text into runs of digits and what is between them.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |letter: char| letter.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|letter| !same(letter)).unwrap_or(rest.len());
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
    }
}

/// Writes a reply so that a person can read it.
pub(crate) fn show(reply: &Reply) -> String {
    match reply {
        Ok(value) => show_value(value),
        Err(error) => format!("error {:?}", error.to_string()),
    }
}

fn show_value(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(show_value).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(sorted).collect();
            items.sort_by_key(|item| format!("{item:?}"));
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// Up to this many milliseconds, only `PTTL` is sure to say a time.
const SHORT: i64 = 900;
