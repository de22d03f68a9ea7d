//! The id of a permit.

use std::{error, fmt, str::FromStr};

use redlatch_core::family::AttemptId;

/// The name of a given-out permit. Any process that has it may extend and return the permit.
///
/// The text form has 36 to 90 characters, `<32 hexadecimal digits>:<n>:<n>`, perhaps with a third
/// number. It is written by [`Display`](fmt::Display) and read by [`FromStr`]; with the feature
/// `serde`, serde uses the same text. The id does not name its semaphore. It is hard to guess but
/// no secret, since it is listed in [`holders`](crate::PermitExpirableSemaphore::holders).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId {
    /// Its name on the server, `<client>:<n>:<n>`.
    pub(crate) hold: String,
    /// The last server time at which a copy of its acquire may act, if copies were under way when
    /// it was given out.
    void_by: Option<u64>,
}

impl PermitId {
    pub(crate) fn new(attempt: &AttemptId, at: u32, void_by: Option<u64>) -> Self {
        Self {
            hold: format!("{attempt}:{at}"),
            void_by,
        }
    }

    /// Returns the attempt that took it, and the time until which copies of that may act, if there
    /// were any.
    pub(crate) fn void(&self) -> Option<(String, u64)> {
        let (attempt, _) = self.hold.rsplit_once(':')?;
        Some((attempt.to_owned(), self.void_by?))
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hold)?;
        match self.void_by {
            Some(by) => write!(f, ":{by}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermitId({self})")
    }
}

impl FromStr for PermitId {
    type Err = ParsePermitIdError;

    fn from_str(text: &str) -> Result<Self, ParsePermitIdError> {
        use ParsePermitIdError::{Attempt, Client, Permit, Tail};

        let mut parts = text.split(':');
        let mut part = |wrong| parts.next().ok_or(wrong);
        let client = part(Client)?;
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if client.len() != 32 || !client.bytes().all(hex) {
            return Err(Client);
        }
        let attempt: u64 = number(part(Attempt)?).ok_or(Attempt)?;
        let at: u32 = number(part(Permit)?).ok_or(Permit)?;
        let tail = |by: &str| number(by).filter(|_| by.len() == 13).ok_or(Tail);
        let void_by: Option<u64> = parts.next().map(tail).transpose()?;
        if parts.next().is_some() {
            return Err(Tail);
        }
        Ok(Self {
            hold: format!("{client}:{attempt}:{at}"),
            void_by,
        })
    }
}

/// Reads a number in its canonical form, since one permit has one id.
fn number<N: FromStr + ToString>(text: &str) -> Option<N> {
    let number: N = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The reason why a text is not a permit id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParsePermitIdError {
    /// It does not begin with 32 hexadecimal digits in lower case.
    Client,
    /// The number after those is missing or malformed.
    Attempt,
    /// The number after that is missing or malformed.
    Permit,
    /// The rest is not a number of 13 digits, or more follows.
    Tail,
}

impl fmt::Display for ParsePermitIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "the id of a permit begins with 32 hexadecimal digits in lower case",
            Self::Attempt => "the second part of a permit's id is no number",
            Self::Permit => "the third part of a permit's id is no number",
            Self::Tail => "what follows the third part of a permit's id is no number of 13 digits",
        })
    }
}

impl error::Error for ParsePermitIdError {}

#[cfg(feature = "serde")]
mod with_serde {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::PermitId;

    impl Serialize for PermitId {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for PermitId {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
            text.parse().map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const CLIENT: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn ids_are_read_as_they_are_written() {
        for tail in [
            ":7:0",
            ":18446744073709551615:4294967295",
            ":7:0:1700000000123",
        ] {
            let text = format!("{CLIENT}{tail}");
            let id: PermitId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(
                id.void().is_some(),
                tail.len() > 16 && tail.starts_with(":7")
            );
        }
    }

    #[test]
    fn malformed_ids_are_told_apart() {
        use ParsePermitIdError::{Attempt, Client, Permit, Tail};
        for (text, error) in [
            ("", Client),
            ("order:42", Client),
            (&format!("{}:7:0", CLIENT.to_uppercase()), Client),
            (&format!("{CLIENT}0:7:0"), Client),
            (&format!("{}é:7:0", &CLIENT[..30]), Client),
            (CLIENT, Attempt),
            (&format!("{CLIENT}:"), Attempt),
            (&format!("{CLIENT}:+7:0"), Attempt),
            (&format!("{CLIENT}:18446744073709551616:0"), Attempt),
            (&format!("{CLIENT}:7"), Permit),
            (&format!("{CLIENT}:7:00"), Permit),
            (&format!("{CLIENT}:7:4294967296"), Permit),
            (&format!("{CLIENT}:7:0 "), Permit),
            (&format!("{CLIENT}:7:0:"), Tail),
            (&format!("{CLIENT}:7:0:170000000012"), Tail),
            (&format!("{CLIENT}:7:0:170000000012x"), Tail),
            (&format!("{CLIENT}:7:0:1700000000123:1"), Tail),
        ] {
            assert_eq!(text.parse::<PermitId>(), Err(error), "{text}");
        }
    }
}
