//! Who holds: owners, attempts, and the scope that nested calls pick an owner up from.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::Uuid;

/// The identity of a client: 32 hexadecimal digits, drawn afresh for each.
///
/// One word and not two: each hold has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Arc<String>);

impl ClientId {
    /// Makes an id of what the system's entropy has given. It excludes, so nothing that repeats may
    /// take its place.
    pub(crate) fn from_entropy(entropy: u128) -> Self {
        let uuid = uuid::Builder::from_random_bytes(entropy.to_be_bytes()).into_uuid();
        Self(Arc::new(uuid.simple().to_string()))
    }

    /// Returns the id as it stands in keys and owners.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads an id back from the front of an owner as the server stores it.
    pub(crate) fn of_owner(owner: &str) -> Option<Self> {
        let (client, _) = owner.split_once(':')?;
        Uuid::try_parse(client).ok()?;
        Some(Self(Arc::new(client.to_owned())))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An identity that may hold and re-enter: `<client>:<n>`.
///
/// Every acquisition has a fresh owner unless one is given, and so excludes every other, inside one
/// process too. To re-enter, pass the owner of the hold, or run the nested code inside its
/// [`scope`](Self::scope). An owner belongs to the client that made it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    client: ClientId,
    number: u64,
}

impl Owner {
    /// Returns the client it belongs to.
    pub const fn client(&self) -> &ClientId {
        &self.client
    }

    /// Returns its number within the client.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Runs `future` so that every acquisition of the same client inside it, at any depth, is made
    /// by this owner, unless it names another.
    ///
    /// Tasks spawned inside do not inherit the scope. Branches of `join!` inside do, and so do not
    /// exclude each other.
    ///
    /// # Cancel safety
    ///
    /// As `future` itself.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        SCOPE.scope(self.clone(), future).await
    }

    /// Returns the owner of the innermost scope this is called in.
    pub fn current() -> Option<Self> {
        SCOPE.try_with(Self::clone).ok()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

tokio::task_local! {
    static SCOPE: Owner;
}

/// Hands out owners and attempts of one client; no number is given twice.
#[derive(Debug)]
pub(crate) struct Numbers {
    client: ClientId,
    next: AtomicU64,
}

impl Numbers {
    pub(crate) const fn new(client: ClientId) -> Self {
        Self {
            client,
            next: AtomicU64::new(1),
        }
    }

    pub(crate) const fn client(&self) -> &ClientId {
        &self.client
    }

    pub(crate) fn draw(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Goes on at a number that copies of this machine do not go on at, each having its own
    /// `entropy`. Numbers rise, and so none is given twice.
    pub(crate) fn jump(&self, entropy: u128) {
        let jump = |next: u64| {
            let left = END.saturating_sub(next);
            // The lowest bits of an id of version 4 are random.
            next + 1 + (entropy as u64 & (u64::MAX >> 2)) % (left / PARTS).max(1)
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        // The closure always returns a number.
        let _ = self.next.fetch_update(set, fetch, |next| Some(jump(next)));
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner {
            client: self.client.clone(),
            number: self.draw(),
        }
    }
}

/// The identity of one acquisition's requests: `<client>:<n>`, never used twice.
#[derive(Clone, PartialEq, Eq)]
pub struct AttemptId {
    client: ClientId,
    number: u64,
}

impl AttemptId {
    pub(crate) fn draw(numbers: &Numbers) -> Self {
        Self {
            client: numbers.client.clone(),
            number: numbers.draw(),
        }
    }

    /// Returns attempt `number` of the client of `owner`.
    pub(crate) fn of(owner: &Owner, number: u64) -> Self {
        Self {
            client: owner.client.clone(),
            number,
        }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) const fn client(&self) -> &ClientId {
        &self.client
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptId({self})")
    }
}

/// Scripts read numbers as floats, which have 53 bits.
const END: u64 = 1 << 53;

/// A jump is of one such part at most of the numbers that are left: 2^36 at first. With eleven
/// digits, the address of a waiter has at most the 64 bytes that the server keeps in its most
/// compact form.
const PARTS: u64 = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        Numbers::new(ClientId::from_entropy(7))
    }

    #[test]
    fn numbers_of_copied_processes_diverge() {
        let (one, other) = (numbers(), numbers());
        assert_eq!(one.draw(), other.draw());
        one.jump(1 << 20);
        other.jump(2 << 20);
        assert_eq!(other.draw() - one.draw(), 1 << 20);
    }

    #[test]
    fn numbers_rise_and_stay_short() {
        let numbers = numbers();
        let mut last = 0;
        for jump in 0..1_000_000_u32 {
            numbers.jump(u128::MAX);
            let next = numbers.draw();
            assert!(next > last);
            last = next;
            if jump == 10 {
                assert!(last < 1_000_000_000_000);
            }
        }
        assert!(last < 1 << 53);
    }
}
