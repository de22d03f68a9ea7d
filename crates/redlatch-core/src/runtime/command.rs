//! Commands to a server and their replies.

use std::{error, fmt, io::Write as _};

/// One command to a server, or a part of one, with binary-safe arguments.
///
/// One buffer has all arguments, each behind its length.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    bytes: Vec<u8>,
    count: usize,
}

impl Command {
    /// Creates a command with its name as first argument.
    pub fn new(name: &str) -> Self {
        Self::with_capacity(8, 128).arg(name)
    }

    /// Appends one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg);
        self
    }

    /// Returns an iterator over the arguments, the command's name first.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut rest = &*self.bytes;
        (0..self.count).map(move |_| {
            let (arg, later) = match rest.split_first_chunk() {
                Some((len, rest)) => rest.split_at(usize::from_ne_bytes(*len)),
                None => (rest, rest),
            };
            rest = later;
            arg
        })
    }

    /// Returns the arguments as texts.
    #[cfg(test)]
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.args().map(String::from_utf8_lossy);
        words.map(String::from).collect()
    }
}

/// For the crates of this family.
#[doc(hidden)]
impl Command {
    /// Creates an empty command with room for `args` arguments of `bytes` bytes in total.
    pub fn with_capacity(args: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes + args * HEAD),
            count: 0,
        }
    }

    /// Appends one argument in place.
    pub fn push(&mut self, arg: impl AsRef<[u8]>) {
        let arg = arg.as_ref();
        self.bytes.extend_from_slice(&arg.len().to_ne_bytes());
        self.bytes.extend_from_slice(arg);
        self.count += 1;
    }

    /// Appends the `Display` text of one argument in place.
    pub(crate) fn write(&mut self, arg: impl fmt::Display) {
        let head = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD]);
        // Writing to a vector cannot fail.
        let _ = write!(self.bytes, "{arg}");
        let start = head + HEAD;
        let len = self.bytes.len() - start;
        self.bytes[head..start].copy_from_slice(&len.to_ne_bytes());
        self.count += 1;
    }

    /// Returns the number of arguments.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the total length of all arguments in bytes.
    pub const fn payload_len(&self) -> usize {
        self.bytes.len() - self.count * HEAD
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // AUTH and HELLO contain secrets. A transport sends them by itself and never as a `Command`
        // to be logged.
        let lossy = self.args().map(String::from_utf8_lossy);
        f.debug_list().entries(lossy).finish()
    }
}

/// Length of a length field in bytes.
const HEAD: usize = size_of::<usize>();

/// The value of a reply. It has the types of RESP2, and the types of RESP3 are mapped to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value, also RESP3's null.
    Nil,
    /// An integer. RESP3's booleans are 1 and 0.
    Int(i64),
    /// A bulk string. RESP3's doubles and big numbers arrive as text.
    Bulk(Vec<u8>),
    /// A status line such as `OK`.
    Status(String),
    /// An array. RESP3's sets become arrays, and its maps become key, value, key, value.
    Array(Vec<Self>),
    /// An error inside an array.
    Error(ServerError),
}

impl Value {
    /// Returns the integer, also if a bulk string or a status spells one.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::runtime::Value;
    ///
    /// assert_eq!(Value::Int(7).as_int(), Some(7));
    /// assert_eq!(Value::Bulk(b"7".to_vec()).as_int(), Some(7));
    /// assert_eq!(Value::Nil.as_int(), None);
    /// ```
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => self.as_str()?.parse().ok(),
        }
    }

    /// Returns the text of a bulk string or a status, if it is UTF-8.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::runtime::Value;
    ///
    /// assert_eq!(Value::Status("OK".to_owned()).as_str(), Some("OK"));
    /// assert_eq!(Value::Bulk(vec![0xff]).as_str(), None); // no UTF-8
    /// ```
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// Returns the bytes of a bulk string or a status.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::runtime::Value;
    ///
    /// assert_eq!(Value::Bulk(vec![0xff]).as_bytes(), Some(&[0xff][..]));
    /// ```
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::Status(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// Returns the elements of an array.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::runtime::Value;
    ///
    /// let invoices = Value::Array(vec![Value::Int(4711), Value::Int(4712)]);
    /// let numbers = invoices.as_array().into_iter().flatten().map(Value::as_int);
    /// assert!(numbers.eq([Some(4711), Some(4712)]));
    /// ```
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// An error reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The first word: `NOSCRIPT`, `MOVED`, `ERR`, …
    pub code: String,
    /// The rest of the line.
    pub message: String,
}

/// For the crates of this family.
#[doc(hidden)]
impl ServerError {
    /// Splits an error line into its code and the rest. A leading `-` is dropped.
    pub fn parse(line: &str) -> Self {
        let line = line.strip_prefix('-').unwrap_or(line);
        let (code, message) = line.split_once(' ').unwrap_or((line, ""));
        Self::new(code, message)
    }

    /// Creates an error. Drops the arguments that a server echoes with an unknown command: they may
    /// be secret, and read like words of the server.
    pub fn new(code: &str, message: &str) -> Self {
        let own = message.split(", with args").next().unwrap_or_default();
        Self {
            code: code.to_owned(),
            message: own.to_owned(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.message)
    }
}

impl error::Error for ServerError {}

/// The server's answer to one command.
pub type Reply = Result<Value, ServerError>;

/// The outcome of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered.
    Replied(Reply),
    /// The command never left this process. The text says why.
    NotSent(String),
    /// The command may or may not have run, or may still run. The text says what went wrong.
    Unknown(String),
}

impl Outcome {
    /// Returns the reply to the first of several commands. The error says why there is none.
    pub(crate) fn first_reply(outcomes: Vec<Self>) -> Result<Reply, String> {
        match outcomes.into_iter().next() {
            Some(Self::Replied(reply)) => Ok(reply),
            Some(Self::NotSent(why) | Self::Unknown(why)) => Err(why),
            None => Err("no outcome".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_arguments_are_read_back() {
        let mut command = Command::with_capacity(0, 0);
        assert_eq!((command.args().next(), command.len()), (None, 0));
        command.push(b"");
        command.push([0_u8, 255]);
        command.write(12);
        command.write("");
        let all: Vec<&[u8]> = command.args().collect();
        assert_eq!(all, [&b""[..], &[0, 255], b"12", b""]);
        assert_eq!((command.len(), command.payload_len()), (4, 4));
        let mut iter = command.args();
        iter.next();
        assert_eq!(iter.len(), 3);
    }
}
