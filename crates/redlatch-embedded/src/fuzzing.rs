//! What the package `fuzz` reaches: the parsers and writers of the server.

use redlatch_core::{
    family::is_match,
    runtime::{Command, Reply},
};

use crate::listen::{reply, request::RequestParser};

/// Reads the requests of a client that sends `portions`. Returns them, and whether the bytes behind
/// them are refused.
pub fn requests<'a>(portions: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Command>, bool) {
    let mut parser = RequestParser::default();
    let mut requests = Vec::new();
    for portion in portions {
        parser.feed(portion);
        loop {
            match parser.next() {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(_) => return (requests, true),
            }
        }
    }
    (requests, false)
}

/// Writes a reply.
pub fn written(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply::reply(&mut bytes, reply);
    bytes
}

/// Matches a pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    is_match(pattern, text)
}
