//! The client, the name and the class of a handle, the errors of its options, and what makes its
//! builders and streams awaitable.

use std::{fmt, sync::Arc};

use super::{About, AttemptId, Identity, Internals, Items, Key, Name, NameError, ScriptCall};
use crate::{Client, Error, ErrorKind};

/// The client, the name and the class of a handle.
#[derive(Clone)]
pub struct Handle {
    client: Client,
    kind: &'static str,
    class: Arc<str>,
    key: Result<Key, NameError>,
}

impl Handle {
    /// Creates a handle of an object that errors call a `kind`.
    pub fn new(client: &Client, kind: &'static str, name: &str) -> Self {
        Self {
            client: client.clone(),
            kind,
            class: Arc::default(),
            key: Name::parse(name).map(|name| client.key(&name)),
        }
    }

    /// Creates a handle of a name in the layout of another library.
    pub fn foreign(client: &Client, kind: &'static str, name: &str) -> Self {
        Self {
            key: Name::parse(name).and_then(|name| Key::foreign(&client.0.prefix, &name)),
            ..Self::new(client, kind, name)
        }
    }

    /// Sets the class, a label of events and metrics.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self
    }

    /// Returns the client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the name, unless it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.key.as_ref().ok().map(Key::name)
    }

    /// Returns the key.
    pub fn key(&self) -> Result<&Key, Error> {
        self.key.as_ref().map_err(|&error| invalid_name(error))
    }

    /// Returns the class and the key.
    pub fn identity(&self) -> Result<Identity, Error> {
        Ok(Identity {
            class: Arc::clone(&self.class),
            key: self.key()?.clone(),
        })
    }

    /// Sends a script that only reads, as [`Internals::query`] does.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing has changed.
    pub async fn ask<T>(
        &self,
        call: ScriptCall,
        read: impl FnOnce(&Items<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.about(self.client.query(&call, read).await)
    }

    /// Sends a change, as [`Internals::change`] does.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change has happened, will happen, or neither.
    pub async fn change<T: Send>(
        &self,
        build: impl Fn(&AttemptId) -> ScriptCall + Send + Sync,
        read: impl FnOnce(&Items<'_>) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        self.about(Internals::change(&self.client, build, read).await)
    }

    /// Names the object in an error.
    pub fn about<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.about(self.kind, self.name().unwrap_or_default())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("kind", &self.kind)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Returns the error of an option that is out of bounds, or does not go with another one.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

/// Returns the error of a name that cannot be used.
pub fn invalid_name(error: NameError) -> Error {
    Error::new(ErrorKind::InvalidName, error.to_string())
}

/// Lets each of these builders be awaited: the future of its method `run` gives the output.
#[doc(hidden)]
#[macro_export]
macro_rules! awaited {
    ($($(#[$about:meta])* $builder:ident => $output:ty;)*) => {$(
        impl std::future::IntoFuture for $builder {
            $(#[$about])*
            type Output = Result<$output, $crate::Error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.run())
            }
        }
    )*};
}

/// Makes each of these types, which wrap a boxed stream, the stream of its items.
#[doc(hidden)]
#[macro_export]
macro_rules! streams {
    ($($stream:ident => $item:ty;)*) => {$(
        impl $crate::family::Stream for $stream {
            type Item = Result<$item, $crate::Error>;

            fn poll_next(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Self::Item>> {
                self.0.as_mut().poll_next(context)
            }
        }

        impl std::fmt::Debug for $stream {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($stream)).finish_non_exhaustive()
            }
        }
    )*};
}
