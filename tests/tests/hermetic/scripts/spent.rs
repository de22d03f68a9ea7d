//! Which attempts a server refuses, written down once more.

use std::fmt;

/// For each client its last attempt and the ms until which copies may come, the latest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent(Vec<(u64, String, u64)>);

fn parts(attempt: &str) -> Option<(&str, u64)> {
    let (client, number) = attempt.split_once(':')?;
    Some((client, number.parse().unwrap()))
}

impl Spent {
    /// Tells whether an attempt that neither holds nor has a place is refused.
    pub(crate) fn refuses(&self, attempt: &str, now: u64) -> bool {
        let Some((client, number)) = parts(attempt) else {
            return false;
        };
        let mut known = self.0.iter().filter(|(ends, ..)| *ends >= now);
        known.any(|(_, other, last)| other == client && *last >= number)
    }

    /// Records an attempt that is granted or ended, whose copies may come until `limit`.
    pub(crate) fn record(&mut self, attempt: &str, limit: u64, now: u64) {
        let (client, mut number) = parts(attempt).unwrap();
        self.0.retain(|(ends, ..)| *ends >= now);
        let latest = self.0.first().map_or(limit, |(ends, ..)| limit.max(*ends));
        self.0.retain(|(_, other, last)| {
            let own = other == client;
            if own {
                number = number.max(*last);
            }
            !own
        });
        self.0.insert(0, (latest, client.to_owned(), number));
    }

    /// Returns the last ms at which a copy may come.
    pub(crate) fn until(&self) -> Option<u64> {
        self.0.first().map(|(ends, ..)| *ends)
    }
}

/// As the server stores it.
impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (ends, client, last)) in self.0.iter().enumerate() {
            let space = if at > 0 { " " } else { "" };
            write!(f, "{space}{ends} {client}:{last}")?;
        }
        Ok(())
    }
}
