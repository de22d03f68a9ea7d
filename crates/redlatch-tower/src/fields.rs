//! The fields `RateLimit` and `RateLimit-Policy`, as draft-ietf-httpapi-ratelimit-headers-11 of
//! May 2026 defines them.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The largest integer of a structured field, RFC 9651.
const LARGEST: u128 = 999_999_999_999_999;

/// The rate of a limiter: tokens, and the time in which they pass.
pub(crate) type Quota = (u64, Duration);

/// What is left for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) tokens: u64,
    /// The time within which no more than these tokens pass.
    pub(crate) window: Duration,
}

impl Rest {
    /// Returns the rest after a pass, from the time in which the whole debt is paid.
    pub(crate) fn after(tokens: u64, debt: Duration, (count, per): Quota) -> Self {
        let (debt, count, per) = (debt.as_micros(), u128::from(count), per.as_micros().max(1));
        // The next token is free when one token less is owed. A debt is rounded up to whole µs.
        let less = debt.saturating_sub(1) * count / per;
        let then = less * per / count.max(1);
        let window = u64::try_from(debt - then).unwrap_or(u64::MAX);
        Self {
            tokens,
            window: Duration::from_micros(window),
        }
    }
}

/// Appends the fields. Other layers may have added items of other policies, which stay.
pub(crate) fn append(headers: &mut HeaderMap, policy: &str, quota: Quota, rest: Rest) {
    let (q, w) = of_whole_seconds(quota);
    let (r, t) = (LARGEST.min(rest.tokens.into()), seconds(rest.window));
    for (name, value) in [
        (POLICY, format!("{policy};q={q};w={w}")),
        (LIMIT, format!("{policy};r={r};t={t}")),
    ] {
        // The policy is printable ASCII.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(name, value);
        }
    }
}

/// Returns a time in whole seconds, rounded up.
pub(crate) const fn seconds(time: Duration) -> u64 {
    time.as_secs()
        .saturating_add((time.subsec_nanos() > 0) as u64)
}

/// Returns the name of a policy as a structured string; `None` if it is not printable ASCII.
pub(crate) fn quoted(policy: &str) -> Option<String> {
    if !policy.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    let escaped = policy.replace('\\', "\\\\").replace('"', "\\\"");
    Some(format!("\"{escaped}\""))
}

/// Returns the rate with a window of whole seconds, the shortest in which a whole number passes.
fn of_whole_seconds((count, per): Quota) -> (u128, u128) {
    let (count, per, second) = (u128::from(count), per.as_micros(), 1_000_000);
    if per.is_multiple_of(second) {
        return (count.min(LARGEST), per / second);
    }
    // count × w / per is whole for this w.
    let reduced = per / common_divisor(count, per).max(1);
    let window = reduced / common_divisor(reduced, second).max(1);
    ((count * window * second / per).min(LARGEST), window)
}

const fn common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
