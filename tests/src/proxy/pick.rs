//! The selection of requests.

use std::fmt;

use super::frame;

/// A request as the client sent it.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    bytes: Vec<u8>,
}

/// Selects the request of an order: the first that matches, unless [`nth`](Self::nth) says
/// otherwise.
pub struct Pick {
    matches: Box<dyn Fn(&Request) -> bool + Send>,
    to_pass: usize,
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
        frame::strings(&self.bytes).unwrap_or_default()
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
    /// Picks any request.
    pub fn any() -> Self {
        Self::matching(|_| true)
    }

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
            to_pass: 0,
        }
    }

    /// Picks the `n`-th matching request, counted from 1, over all connections.
    ///
    /// # Panics
    ///
    /// Panics when `n` is zero.
    #[must_use]
    pub fn nth(mut self, n: usize) -> Self {
        assert!(n > 0, "requests are counted from 1");
        self.to_pass = n - 1;
        self
    }

    pub(super) fn picks(&mut self, request: &Request) -> bool {
        if !(self.matches)(request) {
            return false;
        }
        if self.to_pass == 0 {
            return true;
        }
        self.to_pass -= 1;
        false
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
        f.debug_struct("Pick")
            .field("to_pass", &self.to_pass)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(key: &str) -> Request {
        Request::new(format!("*2\r\n$3\r\nget\r\n${}\r\n{key}\r\n", key.len()).into_bytes())
    }

    #[test]
    fn requests_are_picked_by_what_they_are() {
        assert!(Pick::any().picks(&get("k")));
        assert!(Pick::command("GET").picks(&get("k")));
        assert!(!Pick::command("SET").picks(&get("k")));
        assert!(Pick::containing("order:7").picks(&get("order:7:x")));
        assert!(!Pick::containing("order:7").picks(&get("order:8")));
    }

    #[test]
    fn the_nth_match_is_picked() {
        let mut pick = Pick::containing("b").nth(2);
        let picked: Vec<_> = ["a", "b", "a", "b"].map(|key| pick.picks(&get(key))).into();
        assert_eq!(picked, [false, false, false, true]);
    }
}
