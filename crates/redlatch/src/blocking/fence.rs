//! Writes that refuse an outdated token.

use std::{fmt, sync::Arc, time::Duration};

use super::background::Background;
use crate::{
    Error, Token,
    fence::{Fenced, FencedScript},
    runtime::Value,
};

/// The blocking [`Fence`](crate::fence::Fence): data in Redis that refuses late writes.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid key. All calls panic in async code. Each costs one command and has
/// the errors of the async method.
#[derive(Clone)]
pub struct Fence {
    inner: crate::fence::Fence,
    background: Arc<Background>,
}

impl Fence {
    pub(super) fn new(inner: crate::fence::Fence, background: &Arc<Background>) -> Self {
        Self {
            inner,
            background: Arc::clone(background),
        }
    }

    /// Labels this handle's metrics and events with `class`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.inner = self.inner.class(class);
        self
    }

    /// Keeps the mark for `life` after the last write. See [`Fence::keep`](crate::fence::Fence::keep).
    #[must_use]
    pub fn keep(mut self, life: Duration) -> Self {
        self.inner = self.inner.keep(life);
        self
    }

    /// Sets the key to `value`, unless a greater token was seen.
    ///
    /// # Errors
    ///
    /// Those of [`Fence::set`](crate::fence::Fence::set).
    #[track_caller]
    pub fn set(&self, token: Token, value: impl AsRef<[u8]>) -> Result<Fenced, Error> {
        self.background.wait(self.inner.set(token, value))
    }

    /// Sets the key to `value` for `ttl`, unless a greater token was seen.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    #[track_caller]
    pub fn set_for(
        &self,
        token: Token,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Fenced, Error> {
        self.background.wait(self.inner.set_for(token, value, ttl))
    }

    /// Sets fields of the hash at the key, unless a greater token was seen.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    #[track_caller]
    pub fn hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        token: Token,
        fields: &[(F, V)],
    ) -> Result<Fenced, Error> {
        self.background.wait(self.inner.hset(token, fields))
    }

    /// Deletes the key, unless a greater token was seen.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    #[track_caller]
    pub fn delete(&self, token: Token) -> Result<Fenced, Error> {
        self.background.wait(self.inner.delete(token))
    }

    /// Runs `script` on the key, unless a greater token was seen. See
    /// [`Fence::eval`](crate::fence::Fence::eval).
    ///
    /// # Errors
    ///
    /// Those of `eval` of the async handle.
    #[track_caller]
    pub fn eval(
        &self,
        token: Token,
        script: FencedScript,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Fenced<Option<Value>>, Error> {
        self.background
            .wait(self.inner.eval(token, script, keys, args))
    }

    /// Raises the mark to `token`, and writes nothing.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    #[track_caller]
    pub fn raise(&self, token: Token) -> Result<Fenced, Error> {
        self.background.wait(self.inner.raise(token))
    }

    /// Removes the mark, and returns it.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    #[track_caller]
    pub fn reset(&self) -> Result<Option<Token>, Error> {
        self.background.wait(self.inner.reset())
    }

    /// Returns the mark; `None` if no token was seen.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    #[track_caller]
    pub fn mark(&self) -> Result<Option<Token>, Error> {
        self.background.wait(self.inner.mark())
    }

    /// Returns the key as it was given; `None` if it is invalid.
    pub fn key(&self) -> Option<&str> {
        self.inner.key()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
