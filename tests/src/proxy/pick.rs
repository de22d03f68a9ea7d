//! The selection of requests.

use std::fmt;

use crate::resp;

/// A request as the client sent it.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    bytes: Vec<u8>,
}

/// Selects the request of an order: the first that matches.
pub struct Pick {
    matches: Box<dyn Fn(&Request) -> bool + Send>,
}

impl Request {
    pub(super) const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Returns the raw bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the command and its arguments.
    pub fn args(&self) -> Vec<&[u8]> {
        resp::strings(&self.bytes).unwrap_or_default()
    }

    /// Returns the command in upper case.
    pub fn command(&self) -> String {
        let args = self.args();
        let command = args.first().copied().unwrap_or_default();
        String::from_utf8_lossy(command).to_uppercase()
    }

    /// Tells whether `part` occurs in the raw bytes.
    pub fn contains(&self, part: impl AsRef<[u8]>) -> bool {
        let part = part.as_ref();
        part.is_empty() || self.bytes.windows(part.len()).any(|window| window == part)
    }

    /// Tells whether the server answers with a reply. It answers subscriptions with messages.
    pub(super) fn has_reply(&self) -> bool {
        !self.command().ends_with("SUBSCRIBE")
    }

    /// Tells whether the request changes the meaning of later requests on its connection.
    pub(super) fn is_session(&self) -> bool {
        matches!(self.command().as_str(), "AUTH" | "HELLO" | "SELECT")
    }
}

impl Pick {
    /// Picks requests with a command, in upper or lower case.
    pub fn command(name: &str) -> Self {
        let name = name.to_uppercase();
        Self::matching(move |request| request.command() == name)
    }

    /// Picks requests in whose raw bytes `part` occurs.
    pub fn containing(part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref().to_vec();
        Self::matching(move |request| request.contains(&part))
    }

    /// Picks requests for which a predicate is true.
    pub fn matching(predicate: impl Fn(&Request) -> bool + Send + 'static) -> Self {
        Self {
            matches: Box::new(predicate),
        }
    }

    pub(super) fn picks(&self, request: &Request) -> bool {
        (self.matches)(request)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = self.args();
        f.debug_list()
            .entries(args.iter().map(|arg| String::from_utf8_lossy(arg)))
            .finish()
    }
}

impl fmt::Debug for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pick").finish_non_exhaustive()
    }
}
