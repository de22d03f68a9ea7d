//! Owners, attempts, and the scope that passes an owner to nested calls.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::Uuid;

/// The identity of a client: 32 hexadecimal digits, random for each client.
// `Arc<String>` is one word and `Arc<str>` is two. Each hold contains it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Arc<String>);

impl ClientId {
    /// Creates an id from the system's entropy. Exclusion depends on it, so a repeatable source
    /// must not replace it.
    pub(crate) fn from_entropy(entropy: u128) -> Self {
        let uuid = uuid::Builder::from_random_bytes(entropy.to_be_bytes()).into_uuid();
        Self(Arc::new(uuid.simple().to_string()))
    }

    /// Returns the id, as it appears in keys and owners.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// let id = client.id().as_str();
    /// assert!(client.owner().to_string().starts_with(id));
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the id at the start of an owner, as the server stores it.
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

/// An identity that can hold and re-enter: `<client>:<n>`.
///
/// Every acquisition has a fresh owner unless you pass one, so it excludes every other acquisition,
/// also inside one process. To re-enter, pass the owner of the hold, or run the nested code inside
/// its [`scope`](Self::scope). An owner belongs to the client that created it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    client: ClientId,
    number: u64,
}

impl Owner {
    /// Returns the client that the owner belongs to.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// assert_eq!(client.owner().client(), client.id());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn client(&self) -> &ClientId {
        &self.client
    }

    /// Returns its number within the client.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns `:<n>`, which follows the client's id in the owner's text.
    #[doc(hidden)]
    pub fn suffix(&self) -> impl fmt::Display + use<> {
        Suffix(self.number)
    }

    /// Runs `future` in the scope of this owner. Every acquisition of the same client inside it, at
    /// any depth, uses this owner unless it specifies another.
    ///
    /// Spawned tasks do not inherit the scope. Branches of `join!` inherit the scope, so they do
    /// not exclude each other.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # use redlatch::{Client, Error};
    /// # async fn example(client: Client, lock: &impl Lock) -> Result<(), Error> {
    /// client.owner().scope(async {
    ///     let outer = lock.lock().await?;
    ///     let inner = lock.lock().await?; // the same hold
    ///     assert_eq!(inner.token(), outer.token());
    ///     Ok(())
    /// }).await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The same as that of `future`.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        SCOPE.scope(self.clone(), future).await
    }

    /// Returns the owner of the innermost scope around the call.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// use redlatch::Owner;
    ///
    /// assert_eq!(Owner::current(), None);
    /// let owner = client.owner();
    /// assert_eq!(owner.scope(async { Owner::current() }).await, Some(owner));
    /// # Ok(())
    /// # }
    /// ```
    pub fn current() -> Option<Self> {
        SCOPE.try_with(Self::clone).ok()
    }
}

/// The number of an owner or an attempt, as it follows the client's id.
struct Suffix(u64);

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.0)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.client, self.suffix())
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

/// Creates the numbers of the owners and attempts of one client. No number is used twice.
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

    /// Jumps ahead by a random distance, so that copies of this machine, each with its own
    /// `entropy`, continue at different numbers. Numbers only rise, so none is used twice.
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

/// The identity of one acquisition's requests: `<client>:<n>`, never used twice. Its number is from
/// the series of the owners' numbers.
#[derive(Clone, PartialEq, Eq)]
pub struct AttemptId(Owner);

impl AttemptId {
    pub(crate) fn draw(numbers: &Numbers) -> Self {
        Self(numbers.owner())
    }

    /// Returns attempt `number` of the client of `owner`.
    pub(crate) fn of(owner: &Owner, number: u64) -> Self {
        let client = owner.client.clone();
        Self(Owner { client, number })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.0.number
    }

    /// Returns the client, with which the attempt's text begins.
    pub const fn client(&self) -> &ClientId {
        &self.0.client
    }

    /// Returns `:<n>`, which follows the client's id in the attempt's text.
    pub fn suffix(&self) -> impl fmt::Display + use<> {
        self.0.suffix()
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptId({self})")
    }
}

/// The limit of numbers. Scripts read numbers as floats, which have 53 bits.
const END: u64 = 1 << 53;

/// A jump skips at most the remaining numbers divided by this: 2^36 at first. A number of eleven
/// digits keeps the address of a waiter within 64 bytes, which the server stores in its most
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
