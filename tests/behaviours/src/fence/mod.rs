//! The fence of data in Redis.

pub mod behaviour;

use redlatch::{Token, fence::Fenced};

/// Returns the token `number`.
pub fn token(number: u64) -> Token {
    Token::from_u64(number)
}

/// Returns the refusal by the mark `number`.
pub fn refused<T>(number: u64) -> Fenced<T> {
    let mark = token(number);
    Fenced::Refused { mark }
}
