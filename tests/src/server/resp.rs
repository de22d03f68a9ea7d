//! A tiny blocking client, for administration and inspection.
//!
//! It shares no code with the library, on purpose.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// A connection that sends one command at a time and waits for its reply. Speaks RESP2.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A status such as `OK`.
    Status(String),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// Several replies.
    Array(Vec<Self>),
    /// An error such as `ERR unknown command`.
    Error(String),
}

impl Connection {
    /// Connects. Every later read and write fails after `timeout`.
    pub fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a command and reads its reply. An error reply is a [`Reply::Error`].
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.stream.get_mut().write_all(&encode(args))?;
        self.read_reply()
    }

    /// Reads a reply, or a message of a subscription.
    pub fn read_reply(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream)
    }
}

impl Reply {
    /// Returns the reply if it is not an error, since most administration must succeed.
    ///
    /// # Panics
    ///
    /// Panics if the reply is an error.
    #[track_caller]
    pub fn unwrap(self) -> Self {
        match self {
            Self::Error(error) => panic!("the server answered {error:?}"),
            reply => reply,
        }
    }

    /// Returns the number.
    ///
    /// # Panics
    ///
    /// Panics if the reply is something else.
    #[track_caller]
    pub fn int(self) -> i64 {
        match self {
            Self::Int(value) => value,
            other => panic!("expected a number, got {other:?}"),
        }
    }

    /// Returns the text of a status or a string.
    ///
    /// # Panics
    ///
    /// Panics if the reply is something else.
    #[track_caller]
    pub fn text(self) -> String {
        match self {
            Self::Status(text) => text,
            Self::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => panic!("expected a string, got {other:?}"),
        }
    }

    /// Returns the elements.
    ///
    /// # Panics
    ///
    /// Panics if the reply is something else.
    #[track_caller]
    pub fn array(self) -> Vec<Self> {
        match self {
            Self::Array(elements) => elements,
            other => panic!("expected an array, got {other:?}"),
        }
    }

    /// Returns the text of an error reply.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(error) => Some(error),
            _ => None,
        }
    }
}

fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end_matches(['\r', '\n']);
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| not_resp(line))?;
    match kind {
        "+" => Ok(Reply::Status(rest.to_owned())),
        "-" => Ok(Reply::Error(rest.to_owned())),
        ":" => Ok(Reply::Int(number(rest)?)),
        "$" => {
            let Ok(length) = usize::try_from(number(rest)?) else {
                return Ok(Reply::Nil);
            };
            let mut bytes = vec![0; length + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(length);
            Ok(Reply::Bulk(bytes))
        }
        "*" => {
            let Ok(length) = usize::try_from(number(rest)?) else {
                return Ok(Reply::Nil);
            };
            (0..length)
                .map(|_| read_reply(stream))
                .collect::<io::Result<_>>()
                .map(Reply::Array)
        }
        _ => Err(not_resp(line)),
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| not_resp(text))
}

fn not_resp(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a RESP2 reply: {line:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_replies_are_errors() {
        assert!(read_reply(&mut &b""[..]).is_err());
        assert!(read_reply(&mut &b"\r\n"[..]).is_err());
        assert!(read_reply(&mut &b"hello\r\n"[..]).is_err());
        assert!(read_reply(&mut &b"$5\r\nab"[..]).is_err());
    }
}
