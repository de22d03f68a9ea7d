//! The options of a client that an address may have as parameters.

use std::time::Duration;

use super::wrong;
use crate::Error;

/// The options of a client in an address, in the order of writing.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) known: Vec<(Setting, String)>,
    /// The names of the parameters that redlatch does not know.
    pub(crate) unknown: Vec<String>,
}

/// An option of a client that an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Prefix,
    Lease,
    Application,
    ClientName,
    Patience,
    FailFast,
    LongWait,
    ConnectTimeout,
    TokenRetention,
    ServerClockAllowance,
    MaxWaiters,
    SelfCheck,
}

impl Settings {
    /// Adds the parameter called `name`.
    pub(super) fn add(&mut self, name: &str, value: String) {
        match Setting::of(name) {
            Some(setting) => self.known.push((setting, value)),
            // Perhaps the end of a password with an ampersand.
            None if value.is_empty() => self.unknown.push(NOT_SHOWN.to_owned()),
            None => self.unknown.push(shown(name)),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

impl Setting {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "prefix" => Self::Prefix,
            "lease" => Self::Lease,
            "application" => Self::Application,
            "client_name" => Self::ClientName,
            "patience" => Self::Patience,
            "fail_fast" => Self::FailFast,
            "long_wait" => Self::LongWait,
            "connect_timeout" => Self::ConnectTimeout,
            "token_retention" => Self::TokenRetention,
            "server_clock_allowance" => Self::ServerClockAllowance,
            "max_waiters" => Self::MaxWaiters,
            "self_check" => Self::SelfCheck,
            _ => return None,
        })
    }
}

/// Returns the name of a parameter for a log. A name with other signs may be a part of a password.
fn shown(name: &str) -> String {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.len() <= 32 && name.bytes().all(usual) {
        name.to_owned()
    } else {
        NOT_SHOWN.to_owned()
    }
}

/// Stands for what may be a part of a password.
const NOT_SHOWN: &str = "(not shown)";

/// Reads a span: a whole number and its unit.
pub(crate) fn span(text: &str) -> Result<Duration, Error> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    let number = number.parse::<u64>().ok().filter(|_| millis > 0);
    let millis = number.and_then(|number| number.checked_mul(millis));
    millis.map(Duration::from_millis).ok_or_else(|| {
        let shown: String = text.chars().take(32).collect();
        wrong(format!(
            "{shown:?} in the address is no span of time; write 500ms, 30s, 5m, 2h or 7d"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(span(text).unwrap(), Duration::from_millis(millis));
        }
        for text in [
            "",
            "30",
            "s",
            "1.5s",
            "-1s",
            "30 s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            let error = span(text).unwrap_err().to_string();
            assert!(error.contains("no span of time"), "{error}");
        }
    }
}
