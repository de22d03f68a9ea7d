//! What workers do with guards, whatever they guard.

use std::{future::Future, ops::Deref};

use redlatch_core::{Error, Held, HoldState, Moment, Released};

use crate::watch::{Part, Sighted};

/// A guard of some primitive.
pub trait Guard: Deref<Target = Held> + Send + Sync + 'static {
    /// Releases.
    fn release(self) -> impl Future<Output = Result<Released, Error>> + Send + 'static;

    /// Returns the token that a write under this guard carries; `None` if it must not write.
    fn fence(&self) -> Option<u64> {
        Some(self.token().as_u64())
    }

    /// Returns which hold of its name it belongs to: the guards of one hold are lost together.
    fn hold(&self) -> String {
        self.token().to_string()
    }

    /// Returns what it leaves to others.
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
