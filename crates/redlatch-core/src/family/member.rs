//! Objects that can be held together with others.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use crate::{
    Acquire, Client, Error, Held, TryAcquire, TryAcquireFor, api::builder::AcquireMany,
    base::primitive::Primitive, engine::AcquireOptions,
};

/// An object that can be a member of a lock over several objects: the plain lock, each stripe of a
/// striped lock, the fair lock, and either side of a read-write lock.
pub trait Lockable: Send + Sync {
    /// Returns the object to acquire.
    ///
    /// # Errors
    ///
    /// `InvalidName`.
    fn member(&self) -> Result<Member, Error>;
}

/// Any lock as one type, `&dyn Lockable` or `Box<dyn Lockable>`, for code that is told which lock
/// to take. Options and outcomes are those of the lock itself.
///
/// ```
/// # async fn work() {}
/// # use redlatch_core as redlatch;
/// use redlatch::{Error, Lockable};
///
/// async fn guarded(lock: &dyn Lockable) -> Result<(), Error> {
///     let guard = lock.lock().await?;
///     guard.run(work()).await
/// }
/// ```
impl dyn Lockable + '_ {
    /// Creates a request that waits until the lock is free. Awaiting the returned builder sends it.
    pub fn lock(&self) -> Acquire<Held> {
        match self.member() {
            Ok(Member {
                client, primitive, ..
            }) => Acquire::new(&client, Ok(primitive)),
            Err(error) => Acquire::many(Arc::new(Invalid(error))),
        }
    }

    /// Creates a request that does not wait. Awaiting the returned builder sends it.
    pub fn try_lock(&self) -> TryAcquire<Held> {
        match self.member() {
            Ok(Member {
                client, primitive, ..
            }) => TryAcquire::new(&client, Ok(primitive)),
            Err(error) => TryAcquire::many(Arc::new(Invalid(error))),
        }
    }

    /// Creates a request that waits for `wait` at most. Awaiting the returned builder sends it.
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<Held> {
        match self.member() {
            Ok(Member {
                client, primitive, ..
            }) => TryAcquireFor::new(&client, Ok(primitive), wait),
            Err(error) => TryAcquireFor::many(Arc::new(Invalid(error)), wait),
        }
    }
}

/// An acquisition that fails, since its name is invalid.
#[derive(Debug)]
struct Invalid(Error);

impl AcquireMany<Held> for Invalid {
    fn acquire(
        self: Arc<Self>,
        _: AcquireOptions,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Held>, Error>> + Send>> {
        Box::pin(async move { Err(self.0.clone()) })
    }
}

/// One object that can be acquired, and the client that acquires it. Opaque.
#[derive(Clone)]
pub struct Member {
    client: Client,
    primitive: Arc<dyn Primitive>,
    object: &'static str,
}

/// For the crates of this family.
#[doc(hidden)]
impl Member {
    /// Creates a member.
    pub fn new(client: &Client, primitive: Arc<dyn Primitive>) -> Self {
        Self {
            client: client.clone(),
            object: primitive.kind(),
            primitive,
        }
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
        &self.client
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.primitive.name()
    }

    /// Returns the kind, as it appears in events and metrics.
    pub fn kind(&self) -> &'static str {
        self.primitive.kind()
    }

    /// Returns the kind of the object that this is, or is a side of.
    pub const fn object(&self) -> &'static str {
        self.object
    }

    /// Returns the primitive that the engine acquires.
    pub const fn primitive(&self) -> &Arc<dyn Primitive> {
        &self.primitive
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("kind", &self.kind())
            .field("name", &self.name())
            .field("address", &self.client.address())
            .finish()
    }
}
