//! Grants that a release makes on behalf of a waiter: the order, the message, and the deadline.

use std::{fmt, time::Duration};

use super::time::Moment;

/// The order that a waiter gives with its registration: a release may give it the object.
///
/// The nonce is secret between the waiter and the server. Only a message with this nonce is a
/// grant, so that nobody makes a holder by publishing to the waiter's channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The lease to request, in ms.
    pub(crate) lease: u64,
    /// How long the object's state is to live, in ms: the lease and the retention of the token.
    pub(crate) ttl: u64,
    /// A random number.
    pub(crate) nonce: u64,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease, ttl, nonce } = self;
        write!(f, "g{lease}.{ttl}.{nonce:016x}")
    }
}

/// The content of the message about a grant: `g<nonce>.<token>.<ends>.<abandoned>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The nonce of the order.
    pub(crate) nonce: u64,
    /// The token of the hold.
    pub(crate) token: u64,
    /// When the hold ends on the server unless it is renewed, in ms since the epoch.
    pub(crate) ends: u64,
    /// Whether the previous holder never released.
    pub(crate) abandoned: bool,
}

impl Notice {
    /// Parses the last word of a message.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let mut parts = word.strip_prefix('g')?.split('.');
        let nonce = parts.next().filter(|nonce| nonce.len() == 16)?;
        let notice = Self {
            nonce: u64::from_str_radix(nonce, 16).ok()?,
            token: parts.next()?.parse().ok()?,
            ends: parts.next()?.parse().ok()?,
            abandoned: match parts.next()? {
                "0" => false,
                "1" => true,
                _ => return None,
            },
        };
        parts.next().is_none().then_some(notice)
    }

    /// Splits a message into the part that names the waiter, and the notice.
    pub(crate) fn split(message: &str) -> Option<(&str, Self)> {
        let (waiter, word) = message.rsplit_once(' ')?;
        Some((waiter, Self::parse(word)?))
    }
}

/// A time of the server, and a moment of this process that was not later: the sending of the
/// request whose reply had it.
///
/// The moment of the reception does not serve. A reply may lie in the socket while the process does
/// not run, and each second would prolong the holder's belief in a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dated {
    /// When the request was sent.
    pub(crate) sent: Moment,
    /// The server's time in the reply, in ms since the epoch.
    pub(crate) millis: u64,
}

impl Dated {
    /// Returns how long a hold lasts, counted from `sent`, if it ends at `ends` on the same server.
    pub(crate) const fn lasts(&self, ends: u64) -> Duration {
        Duration::from_millis(ends.saturating_sub(self.millis))
    }

    /// Returns the one whose request was sent later.
    pub(crate) fn later(self, other: Self) -> Self {
        if other.sent > self.sent { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    #[test]
    fn order_is_written_as_the_scripts_read_it() {
        let order = Order {
            lease: 30_000,
            ttl: 330_000,
            nonce: 0xab,
        };
        assert_eq!(order.to_string(), "g30000.330000.00000000000000ab");
    }

    #[test]
    fn only_a_whole_notice_is_one() {
        let word = "g00000000000000ab.1795300000123456.1795300005123.1";
        let notice = Notice {
            nonce: 0xab,
            token: 1_795_300_000_123_456,
            ends: 1_795_300_005_123,
            abandoned: true,
        };
        assert_eq!(Notice::parse(word), Some(notice));
        for wrong in [
            "",
            "g",
            "gab.1.2.1",
            "g00000000000000ab.1.2",
            "g00000000000000ab.1.2.2",
            "g00000000000000ab.1.2.1.",
            "g00000000000000ab.x.2.1",
            "h00000000000000ab.1.2.1",
            "g000000000000000z.1.2.1",
        ] {
            assert_eq!(Notice::parse(wrong), None, "{wrong}");
        }
        let message = format!("re:d:l:{{a b}} 17 {word}");
        assert_eq!(Notice::split(&message), Some(("re:d:l:{a b} 17", notice)));
        assert_eq!(Notice::split("re:d:l:{a} 17"), None);
    }

    /// A reply that lay in the socket for 3 s gives no second more.
    #[test]
    fn hold_is_counted_from_the_sending_of_the_dated_request() {
        let dated = Dated {
            sent: at(1_000),
            millis: 50_000,
        };
        assert_eq!(dated.lasts(55_000), Duration::from_secs(5));
        assert_eq!(dated.lasts(49_000), Duration::ZERO);
        let later = Dated {
            sent: at(2_000),
            millis: 40_000,
        };
        assert_eq!(dated.later(later), later);
        assert_eq!(later.later(dated), later);
    }
}
