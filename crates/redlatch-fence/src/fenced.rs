//! The outcome of a fenced write.

use redlatch_core::Token;

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
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }

    /// Returns the result of the write; `None` if it was refused.
    pub fn written(self) -> Option<T> {
        match self {
            Self::Written(result) => Some(result),
            Self::Refused { .. } => None,
        }
    }
}
