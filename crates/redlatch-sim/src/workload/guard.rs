//! The operations of workers on guards of every kind.

use std::{future::Future, ops::Deref};

use redlatch_core::{Error, Held, HoldState, Moment, Released};

use crate::watch::{Part, Sighted};

/// A guard of some primitive.
pub trait Guard: Deref<Target = Held> + Send + Sync + 'static {
    /// Releases the guard.
    fn release(self) -> impl Future<Output = Result<Released, Error>> + Send + 'static;

    /// Returns the token for a write under this guard; `None` if it must not write.
    fn fence(&self) -> Option<u64> {
        Some(self.token().as_u64())
    }

    /// Returns the identity of its hold within the name. The guards of one hold are lost together.
    fn hold(&self) -> String {
        self.token().to_string()
    }

    /// Returns the share that it takes.
    fn part(&self) -> Part {
        Part::Whole
    }
}

impl<G: Deref<Target = Held> + Send + Sync> Sighted for G {
    fn valid_until(&self) -> Moment {
        Held::valid_until(self)
    }

    fn state(&self) -> HoldState {
        Held::state(self)
    }
}
