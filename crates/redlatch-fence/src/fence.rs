//! The fence of data in Redis.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Client, Error, ErrorKind, Token,
    family::{
        About, Internals, Items, Key, Lease, Name, invalid, invalid_name, report_fenced, slot_of,
    },
    runtime::Value,
};

use crate::{
    FencedScript,
    scripts::{self, FencedWrite, Write},
};

/// A key in Redis that only the holder of the highest token may write to.
///
/// `Client::fence` creates a handle. The key is yours: no prefix is added, and any client may read
/// the key. The *mark*, the highest token that has written, is stored next to the key in the same
/// slot. Check, write and advance of the mark are one script. Every write to the key has to use the
/// fence, since the server does not enforce it.
///
/// * **Tokens** of one lock, or of one election, are comparable with each other and with no others.
///   All writers of one fence have to use the same lock.
/// * **A token equal to the mark** is accepted: a holder may write as often as it likes.
/// * **Once**: each call writes once, however often its request is sent, duplicated or delayed.
/// * **The mark stays** as long as the server keeps the mark: forever by default, about 100 bytes.
///   See [`keep`](Self::keep).
/// * **A server that loses its data** loses the mark with the data. If the server that issues the
///   tokens loses its data and its clock is behind, its tokens are below the mark. All writes are
///   refused until [`reset`](Self::reset).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// use redlatch::fence::Fenced;
///
/// let report = client.fence("report:today");
/// let old = client.lock("report").lock().await?.token(); // this holder pauses …
/// let new = client.lock("report").lock().await?.token();
/// assert_eq!(report.set(new, "all is well").await?, Fenced::Written(()));
/// // … and wakes up too late.
/// assert_eq!(report.set(old, "outdated").await?, Fenced::Refused { mark: new });
/// # Ok(())
/// # }
/// ```
///
/// # Rights
///
/// The server's user needs the right to write to the key itself, in addition to those for the
/// prefix.
#[doc(alias("fencing token", "compare and set"))]
#[derive(Clone, Debug)]
#[must_use = "nothing is written until a method is awaited"]
pub struct Fence {
    client: Client,
    place: Result<Arc<Place>, Error>,
    class: Arc<str>,
    life: Option<Duration>,
}

/// The keys of one fence.
#[derive(Debug)]
pub(crate) struct Place {
    /// The family's key of the name, for its slot and its parts.
    pub(crate) key: Key,
    pub(crate) mark: String,
    pub(crate) operations: String,
}

impl Place {
    fn new(client: &Client, key: &str) -> Result<Self, Error> {
        let name = Name::parse(key).map_err(invalid_name)?;
        let key = client.key(&name);
        if slot_of(name.as_str().as_bytes()) != key.slot() {
            let name = name.as_str();
            let message = format!(
                "the key {name:?} of a fence has a brace or a percent sign outside of a hash tag; use another key, or one with a tag such as {{tag}}"
            );
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        Ok(Self::of(key))
    }

    pub(crate) fn of(key: Key) -> Self {
        Self {
            mark: key.part("f"),
            operations: key.part("fo"),
            key,
        }
    }

    /// Says which keys an error of a wrong type may be about.
    fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::WrongKind {
            return error;
        }
        let (data, mark) = (self.data(), &self.mark);
        let message = format!(
            "the key {data:?} of a fence holds a value of another type than the write expects, or the key {mark:?} \
             of its mark is not ours; the mark may have advanced"
        );
        Error::with_reason(ErrorKind::WrongKind, message, error)
    }

    /// Returns the key of the data.
    pub(crate) fn data(&self) -> &str {
        self.key.name()
    }
}

impl Fence {
    /// Creates a fence of `key`, as `Client::fence` does: 1 to 512 bytes of UTF-8. A brace or a
    /// percent sign is allowed with a well-formed `{tag}` only. The first call that sends a request
    /// reports an invalid key as `InvalidName`.
    pub fn new(client: &Client, key: impl AsRef<str>) -> Self {
        Self {
            client: client.clone(),
            place: Place::new(client, key.as_ref()).map(Arc::new),
            class: Arc::default(),
            life: None,
        }
    }

    /// Labels this handle's metrics and events with `class`. Keys are never used as labels.
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self
    }

    /// Lets the mark expire `life` after the last write: 1 minute to 365 days, else
    /// `InvalidOption`. Default: never. The last writer's choice counts.
    ///
    /// After that any token may write. So `life` has to be longer than the longest time by which a
    /// writer may be late.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// // No holder of the lock is ever late by more than a day.
    /// let report = client.fence("report:today").keep(Duration::from_secs(24 * 3600));
    /// let token = client.lock("report").lock().await?.token();
    /// assert!(report.set(token, "all is well").await?.is_written());
    /// tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    /// assert_eq!(report.mark().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn keep(mut self, life: Duration) -> Self {
        self.life = Some(life);
        self
    }

    /// Sets the key to `value`, as `SET` does, and removes its TTL. Costs one command. The transfer
    /// of `value` must take less than 1 s. A connection that is still sending after 2 s ends, as if
    /// the server had not answered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::fence::Fenced;
    ///
    /// let guard = client.lock("config").lock().await?;
    /// match client.fence("config:json").set(guard.token(), "{\"debug\": false}").await? {
    ///     Fenced::Written(()) => println!("written"),
    ///     Fenced::Refused { mark } => println!("token {mark} has written: stop"),
    /// }
    /// # assert_eq!(client.fence("config:json").mark().await?, Some(guard.token()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption`. `WrongKind` also for an error of the command itself, such as a string where
    /// `HSET` expects a hash; the mark has advanced then. Otherwise those of [every
    /// call](Error#errors-of-every-call). After `OutcomeUnknown`, the value may have been written.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the write may be made or not. An unsent request is not sent. A sent request
    /// acts within 5 s, once, or never.
    pub async fn set(&self, token: Token, value: impl AsRef<[u8]>) -> Result<Fenced, Error> {
        let (value, ttl) = (value.as_ref(), None);
        self.write(token, Write::Set { value, ttl }).await.map(done)
    }

    /// Sets the key to `value` for `ttl`: 1 ms to 365 days, else `InvalidOption`. The mark outlives
    /// the value. Otherwise as [`set`](Self::set).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("rates").lock().await?;
    /// let rates = client.fence("rates:eur");
    /// let hour = Duration::from_secs(3600);
    /// assert!(rates.set_for(guard.token(), "1.0873", hour).await?.is_written());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Self::set).
    pub async fn set_for(
        &self,
        token: Token,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Fenced, Error> {
        if ttl < Duration::from_millis(1) || ttl > Lease::MAX {
            let key = self.key().unwrap_or_default();
            return Err(invalid(format!(
                "the value of the fence {key:?} has a ttl of {ttl:?}; it is 1 ms to 365 days"
            )));
        }
        let (value, ttl) = (value.as_ref(), Some(ttl));
        self.write(token, Write::Set { value, ttl }).await.map(done)
    }

    /// Sets `fields` of the key, a hash, as `HSET` does: 1 to 1,000 pairs, else `InvalidOption`.
    /// Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// let order = client.fence("order:42:state");
    /// let fields = [("state", "paid"), ("invoice", "4711")];
    /// assert!(order.hset(guard.token(), &fields).await?.is_written());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Self::set).
    pub async fn hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        token: Token,
        fields: &[(F, V)],
    ) -> Result<Fenced, Error> {
        if fields.is_empty() || fields.len() > MAX_FIELDS {
            let (count, key) = (fields.len(), self.key().unwrap_or_default());
            return Err(invalid(format!(
                "{count} fields of the fence {key:?} are set at once; a call has 1 to {MAX_FIELDS}"
            )));
        }
        let pairs = fields.iter();
        let pairs: Vec<_> = pairs
            .map(|(field, value)| (field.as_ref(), value.as_ref()))
            .collect();
        self.write(token, Write::Fields(&pairs)).await.map(done)
    }

    /// Deletes the key, and keeps the mark. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let cart = client.fence("cart:7");
    /// let old = client.lock("cart:7").lock().await?.token();
    /// let new = client.lock("cart:7").lock().await?.token();
    /// assert!(cart.delete(new).await?.is_written());
    /// assert!(!cart.set(old, "3 books").await?.is_written(), "the mark stays");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Self::set).
    pub async fn delete(&self, token: Token) -> Result<Fenced, Error> {
        self.write(token, Write::Delete).await.map(done)
    }

    /// Runs `script` on the key, on further `keys` in the same slot, and on `args`. Costs one
    /// command.
    ///
    /// The result is the reply of the script. The result is `None` if the answer to the first
    /// request was lost and a copy found that the script had run, perhaps with an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::fence::{Fenced, FencedScript};
    ///
    /// let stock = client.fence("stock:42");
    /// let guard = client.lock("stock:42").lock().await?;
    /// stock.set(guard.token(), "10").await?;
    /// let take = FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
    /// let left = stock.eval(guard.token(), take, &[], &[b"3"]).await?;
    /// assert!(matches!(left, Fenced::Written(Some(_)))); // the integer 7
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set). `ScriptFailed` if the script has an error at run time: the mark has
    /// advanced then, and the script's writes before the error stay. A syntax error is `Protocol`,
    /// and a character that is not ASCII is `InvalidOption`; nothing was sent or changed then.
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Self::set).
    pub async fn eval(
        &self,
        token: Token,
        script: FencedScript,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Fenced<Option<Value>>, Error> {
        if keys.len() > MAX_FIELDS || args.len() > MAX_FIELDS {
            return Err(invalid(format!(
                "a fenced script has {} further keys and {} arguments; it has up to {MAX_FIELDS} of each",
                keys.len(),
                args.len()
            )));
        }
        let place = self.place()?;
        if let Some(char) = script.body.chars().find(|char| !char.is_ascii()) {
            return Err(invalid(format!(
                "the script for the fence {:?} has the character {char:?}; it has ASCII characters only, \
                 so write others as escapes or pass them as arguments",
                place.data()
            )));
        }
        let slot = place.key.slot();
        if let Some(stray) = keys.iter().find(|key| slot_of(key.as_bytes()) != slot) {
            return Err(invalid(format!(
                "the key {stray:?} of a fenced script is in another slot than {:?}; give both the same hash tag",
                place.data()
            )));
        }
        self.write(token, Write::Eval { script, keys, args }).await
    }

    /// Advances the mark to `token` and changes no data. Use this method before you read data that
    /// the next write depends on: no earlier holder changes the data afterwards. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::fence::Fenced;
    ///
    /// let guard = client.lock("balance").lock().await?;
    /// let balance = client.fence("balance:7");
    /// if let Fenced::Refused { mark } = balance.raise(guard.token()).await? {
    ///     println!("token {mark} has written: stop");
    /// }
    /// // … read the balance, compute, and write with the same token …
    /// assert_eq!(balance.set(guard.token(), "70").await?, Fenced::Written(()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// As [`set`](Self::set).
    pub async fn raise(&self, token: Token) -> Result<Fenced, Error> {
        self.write(token, Write::Raise).await.map(done)
    }

    /// Removes the mark and returns it; `None` if there was none, or if the answer to the first
    /// request was lost. Any token may write then. Costs one command.
    ///
    /// **This lets late writers in.** It is meant for one case: the server of the lock has lost its
    /// data and its clock was set back, so all new tokens are below the mark. Make sure that no
    /// earlier holder is at work. Then reset the fence, and [`raise`](Self::raise) it to the token
    /// of the present holder.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let stock = client.fence("stock:42");
    /// let token = client.lock("stock:42").lock().await?.token();
    /// assert!(stock.set(token, "10").await?.is_written());
    /// assert_eq!(stock.reset().await?, Some(token)); // no earlier holder is at work
    /// let guard = client.lock("stock:42").lock().await?;
    /// assert!(stock.raise(guard.token()).await?.is_written());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// After a drop, the mark may be removed or not. A sent one acts within 5 s, once, or never.
    pub async fn reset(&self) -> Result<Option<Token>, Error> {
        let place = self.place()?;
        let call = |op: &_| scripts::reset(place, op);
        let reset = self.client.change(call, scripts::was_reset).await;
        reset.about("fence", place.data())
    }

    /// Returns the highest token that has written. Returns `None` if no token has written. Costs
    /// one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let stock = client.fence("stock:42");
    /// assert_eq!(stock.mark().await?, None);
    /// let guard = client.lock("stock:42").lock().await?;
    /// assert!(stock.set(guard.token(), "10").await?.is_written());
    /// assert_eq!(stock.mark().await?, Some(guard.token()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn mark(&self) -> Result<Option<Token>, Error> {
        let place = self.place()?;
        let call = scripts::look(place);
        let mark = self.client.query(&call, scripts::looked).await;
        mark.about("fence", place.data())
    }

    /// Returns the key as it was given; `None` if it is invalid.
    pub fn key(&self) -> Option<&str> {
        self.place.as_ref().ok().map(|place| place.data())
    }

    async fn write(&self, token: Token, what: Write<'_>) -> Result<Fenced<Option<Value>>, Error> {
        if token.as_u64() >= TOKENS {
            return Err(invalid(format!("the token {token} is no token of a lock")));
        }
        if let Some(life) = self.life
            && (life < MIN_LIFE || life > Lease::MAX)
        {
            return Err(invalid(format!(
                "the mark of the fence {:?} has a life of {life:?}; it is 1 minute to 365 days",
                self.key().unwrap_or_default()
            )));
        }
        let place = self.place()?;
        let write = FencedWrite {
            place,
            token,
            life: self.life,
            what,
        };
        let call = |op: &_| write.call(op);
        let read = |items: &Items<'_>| write.decode(items);
        let changed = self.client.change(call, read).await;
        let written = changed.map_err(|error| place.explain(error))?;
        if let Fenced::Refused { mark } = written {
            let (class, key) = (&self.class, place.data());
            report_fenced(class, key, token, mark);
        }
        Ok(written)
    }

    fn place(&self) -> Result<&Place, Error> {
        self.place.as_deref().map_err(Error::clone)
    }
}

/// The outcome of a fenced write. A refusal is a value and not an error: it says that a later
/// holder has written, so the caller's hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write with an outdated token is refused, and the caller has to stop then"]
pub enum Fenced<T = ()> {
    /// The token was accepted, and the write was made.
    Written(T),
    /// A higher token has written before. Nothing was changed.
    Refused {
        /// The highest token that has written.
        mark: Token,
    },
}

impl<T> Fenced<T> {
    /// Tells whether the write was made.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("stock:42").lock().await?;
    /// let stock = client.fence("stock:42:count");
    /// if !stock.set(guard.token(), "9").await?.is_written() {
    ///     return Ok(()); // a later holder has written: stop
    /// }
    /// # assert_eq!(stock.mark().await?, Some(guard.token()));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }

    /// Returns the result of the write; `None` if it was refused.
    ///
    /// ```
    /// use redlatch::Token;
    /// use redlatch::fence::FenceGate;
    ///
    /// let stock = FenceGate::new(10);
    /// let (early, late) = (Token::from_u64(1), Token::from_u64(2));
    /// assert_eq!(stock.write(late, |left| *left).written(), Some(10));
    /// assert_eq!(stock.write(early, |left| *left).written(), None); // refused
    /// ```
    pub fn written(self) -> Option<T> {
        match self {
            Self::Written(result) => Some(result),
            Self::Refused { .. } => None,
        }
    }
}

/// Drops the reply of a script that returns nothing.
fn done(written: Fenced<Option<Value>>) -> Fenced {
    match written {
        Fenced::Written(_) => Fenced::Written(()),
        Fenced::Refused { mark } => Fenced::Refused { mark },
    }
}

/// Largest number of fields, further keys and arguments of one call.
const MAX_FIELDS: usize = 1_000;

/// Shortest time for which a mark is kept.
const MIN_LIFE: Duration = Duration::from_secs(60);

/// Tokens are below this number, so that scripts compare them exactly.
const TOKENS: u64 = 1 << 53;
