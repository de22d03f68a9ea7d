//! The errors of handles and their options.

use super::NameError;
use crate::{Error, ErrorKind};

/// Returns the error of an option that is out of bounds, or does not go with another one.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

/// Returns the error of a name that cannot be used.
pub fn invalid_name(error: NameError) -> Error {
    Error::new(ErrorKind::InvalidName, error.to_string())
}
