//! A tiny blocking client, for administration and inspection.
//!
//! It shares no code with the library, on purpose.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::resp::{Framer, Reply};

/// A connection that sends one command at a time and waits for its reply. Speaks RESP2.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    framer: Framer,
}

impl Connection {
    /// Connects. Every later read and write fails after `timeout`.
    pub fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let framer = Framer::default();
        Ok(Self { stream, framer })
    }

    /// Sends a command and reads its reply. An error reply is a [`Reply::Error`].
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.stream.write_all(&encode(args))?;
        self.read_reply()
    }

    /// Reads a reply, or a message of a subscription.
    pub fn read_reply(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream, &mut self.framer)
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

fn read_reply(stream: &mut impl Read, framer: &mut Framer) -> io::Result<Reply> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let next = framer.next_reply();
        if let Some(reply) = next.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? {
            return Ok(reply);
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => framer.push(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_replies_are_errors() {
        for mut broken in [&b""[..], b"\r\n", b"hello\r\n", b"$5\r\nab"] {
            let reply = read_reply(&mut broken, &mut Framer::default());
            assert!(reply.is_err(), "{reply:?}");
        }
    }
}
