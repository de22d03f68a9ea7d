//! Objects that can be held together with others.

use std::{fmt, sync::Arc};

use crate::{Client, Error, base::primitive::Primitive};

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
