//! A fixed number of locks for any number of keys.

use redlatch_core::{Client, Error, family::invalid};

use crate::Lock;

/// `n` locks for any number of keys. Each key belongs to one of the locks, the same one in every
/// process.
///
/// Use a striped lock for many keys of which few are in use at a time, such as the rows of a table.
/// The server keeps at most `n` names, and a lock over all keys is a lock over `n` names. Two keys
/// that share a stripe exclude each other. So take the lock of one key at a time, or take several
/// as members of a multi-lock, which takes a stripe once.
///
/// The stripe of a key is part of the protocol between processes: FNV-1a of its bytes, 64 bits,
/// mixed by the finalizer of MurmurHash3, modulo `n`. The mapping never changes. The stripes of
/// `accounts` by 64 are called `accounts/s1/64/0` to `accounts/s1/64/63`. Handles with another `n`
/// use other names and do not exclude these.
///
/// Sources: G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake, "The FNV Non-Cryptographic Hash
/// Algorithm"; A. Appleby, MurmurHash3 (`fmix64`).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let accounts = client.striped_lock("accounts", 64)?;
/// let guard = accounts.of("account:4711").lock().await?;
/// assert!(accounts.of("account:4711").try_lock().await?.is_none());
/// assert!(accounts.of("account:4712").try_lock().await?.is_some()); // another stripe
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StripedLock {
    client: Client,
    name: String,
    class: String,
    stripes: u32,
}

impl StripedLock {
    /// Creates a handle of `stripes` locks under `name`, as `Client::striped_lock` does.
    ///
    /// # Errors
    ///
    /// `InvalidOption` if `stripes` is zero.
    pub fn new(client: &Client, name: impl AsRef<str>, stripes: u32) -> Result<Self, Error> {
        if stripes == 0 {
            return Err(invalid("a striped lock has one stripe at least, not 0"));
        }
        Ok(Self {
            client: client.clone(),
            name: name.as_ref().to_owned(),
            class: String::new(),
            stripes,
        })
    }

    /// Labels the metrics and events of all stripes with `class`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        class.clone_into(&mut self.class);
        self
    }

    /// Returns the lock that `key` belongs to.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let seats = client.striped_lock("seats", 16)?;
    /// let seat = seats.of("row 7, seat 12");
    /// assert_eq!(seat.name(), Some("seats/s1/16/3"));
    /// let guard = seat.lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(&self, key: impl AsRef<[u8]>) -> Lock {
        self.stripe(self.index(key))
    }

    /// Returns the number of the stripe that `key` belongs to, from 0.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let seats = client.striped_lock("seats", 16)?;
    /// // Keys of one stripe exclude each other, so sort a batch by stripe.
    /// let mut keys = ["a", "b", "c", "d"];
    /// keys.sort_by_key(|key| seats.index(key));
    /// assert!(keys.is_sorted_by_key(|key| seats.index(key)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn index(&self, key: impl AsRef<[u8]>) -> u32 {
        let index = hash(key.as_ref()) % u64::from(self.stripes);
        // Less than `stripes`, which has 32 bits.
        index as u32
    }

    /// Returns all stripes in order. Together the stripes stand for every key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let accounts = client.striped_lock("accounts", 8)?;
    /// // An audit of all accounts excludes every transfer.
    /// let stripes: Vec<_> = accounts.stripes().collect();
    /// let members: Vec<_> = stripes.iter().map(|lock| lock as _).collect();
    /// let audit = client.multi_lock(&members).lock().await?;
    /// assert!(accounts.of("account:4711").try_lock().await?.is_none());
    /// # drop(audit);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stripes(&self) -> impl ExactSizeIterator<Item = Lock> + '_ {
        // A range of u32 has no exact size on every machine; a vector has.
        let indexes: Vec<_> = (0..self.stripes).collect();
        indexes.into_iter().map(|index| self.stripe(index))
    }

    fn stripe(&self, index: u32) -> Lock {
        // An empty name stays invalid.
        let name = match self.name.as_str() {
            "" => String::new(),
            name => format!("{name}/s1/{}/{index}", self.stripes),
        };
        Lock::new(&self.client, &name).class(&self.class)
    }
}

fn hash(key: &[u8]) -> u64 {
    let fnv = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::hash;

    /// Processes of different versions share stripes: these numbers never change.
    #[test]
    fn hash_of_a_stripe_never_changes() {
        for (key, expected) in [
            ("", 0xefd0_1f60_ba99_2926),
            ("a", 0x82a2_a958_a9be_ce5b),
            ("account:4711", 0x978f_fc3c_239c_1a3a),
        ] {
            assert_eq!(hash(key.as_bytes()), expected, "{key:?}");
        }
    }

    #[test]
    fn similar_keys_are_spread_evenly() {
        let mut counts = [0_u32; 16];
        for number in 0..16_000 {
            counts[(hash(format!("account:{number}").as_bytes()) % 16) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }
}
