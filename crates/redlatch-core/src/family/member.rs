//! Objects that can be held together with others.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Acquire, Client, Error, Held, TryAcquire, TryAcquireFor, api::builder::One,
    base::primitive::Primitive,
};

/// Any lock: the plain lock, each stripe of a striped lock, the fair lock, either side of a
/// read-write lock, and locks in the layouts of other libraries.
///
/// Use the trait in two ways. Code that receives its lock from outside acquires a `&dyn Lockable`
/// by the methods below. A multi-lock takes a list of `&dyn Lockable` as its members. A semaphore
/// and a multi-lock do not implement the trait.
///
/// ```
/// # async fn work() {}
/// # use redlatch_core as redlatch;
/// use redlatch::{Error, Lockable};
///
/// struct Importer {
///     lock: Box<dyn Lockable>, // Box::new(client.lock("import")), or a fair one, or a write side
/// }
///
/// impl Importer {
///     async fn import(&self) -> Result<bool, Error> {
///         let Some(guard) = self.lock.try_lock().await? else {
///             return Ok(false);
///         };
///         guard.run(work()).await?;
///         guard.release().await?;
///         Ok(true)
///     }
/// }
/// ```
pub trait Lockable: Send + Sync {
    /// Returns the object to acquire, or `InvalidName`. For the crates of this family.
    #[doc(hidden)]
    fn member(&self) -> Result<Member, Error>;
}

/// Options and outcomes are those of the lock itself. The guard is a [`Held`], whatever the lock.
/// It has the token; that of a lock in the layout of another library is zero, since there is none.
impl dyn Lockable + '_ {
    /// Acquires the lock, and waits until it is free. Await the returned builder.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &dyn redlatch::Lockable) -> Result<(), redlatch::Error> {
    /// let guard = lock.lock().note("monthly report").await?; // of whatever kind the lock is
    /// println!("{} with token {}", guard.name(), guard.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self) -> Acquire<Held> {
        Acquire::of(self.one(), Held::from)
    }

    /// Acquires the lock if it is free now; `None` otherwise. Await the returned builder.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &dyn redlatch::Lockable) -> Result<(), redlatch::Error> {
    /// let Some(guard) = lock.try_lock().await? else {
    ///     return Ok(()); // another process is at work
    /// };
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<Held> {
        TryAcquire::of(self.one(), Held::from)
    }

    /// Acquires the lock, and waits for `wait` at most; `None` if it was not free. Await the
    /// returned builder.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(lock: &dyn redlatch::Lockable) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = lock.try_lock_for(Duration::from_secs(5)).await?;
    /// println!("{}", if guard.is_some() { "held" } else { "not within 5 s" });
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<Held> {
        TryAcquireFor::of(self.one(), Held::from, wait)
    }

    fn one(&self) -> Result<One, Error> {
        self.member().map(|Member { one, .. }| one)
    }
}

/// One object that can be acquired, and the client that acquires it. For the crates of this
/// family.
#[doc(hidden)]
#[derive(Clone)]
pub struct Member {
    one: One,
    object: &'static str,
}

/// For the crates of this family.
#[doc(hidden)]
impl Member {
    /// Creates a member.
    pub fn new(client: &Client, primitive: Arc<dyn Primitive>) -> Self {
        let object = primitive.kind();
        let client = client.clone();
        let one = One { client, primitive };
        Self { one, object }
    }

    /// Marks this as one side of an object of kind `object`. The exclusive side of an object
    /// includes the shared one.
    #[must_use]
    pub const fn side_of(mut self, object: &'static str) -> Self {
        self.object = object;
        self
    }

    /// Returns the client that acquires it.
    pub const fn client(&self) -> &Client {
        &self.one.client
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.one.primitive.name()
    }

    /// Returns the kind, as it appears in events and metrics.
    pub fn kind(&self) -> &'static str {
        self.one.primitive.kind()
    }

    /// Returns the kind of the object that this is, or is a side of.
    pub const fn object(&self) -> &'static str {
        self.object
    }

    /// Returns the primitive that the engine acquires.
    pub const fn primitive(&self) -> &Arc<dyn Primitive> {
        &self.one.primitive
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("kind", &self.kind())
            .field("name", &self.name())
            .field("address", &self.one.client.address())
            .finish()
    }
}
