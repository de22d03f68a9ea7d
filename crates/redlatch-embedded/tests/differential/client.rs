//! The smallest client that will do: blocking, RESP2, pipelined.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use redlatch_core::runtime::{Command, Reply, ServerError, Value};

pub(crate) struct Client {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Self> {
        let writer = TcpStream::connect(("127.0.0.1", port))?;
        writer.set_nodelay(true)?;
        let reader = BufReader::with_capacity(1 << 16, writer.try_clone()?);
        Ok(Self { writer, reader })
    }

    /// Sends all commands at once and reads one reply for each.
    pub(crate) fn pipeline<'a>(
        &mut self,
        commands: impl ExactSizeIterator<Item = &'a Command>,
    ) -> Vec<Reply> {
        let count = commands.len();
        let mut bytes = Vec::new();
        commands.for_each(|command| encode(command, &mut bytes));
        self.writer.write_all(&bytes).unwrap();
        (0..count).map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Reply {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let text = String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            b"+" => Value::Status(text),
            b"-" => return Err(parse_error(&text)),
            b":" => Value::Int(text.parse().unwrap()),
            b"$" => match usize::try_from(text.parse::<i64>().unwrap()) {
                Ok(len) => Value::Bulk(self.bytes(len)),
                Err(_) => Value::Nil,
            },
            b"*" => match usize::try_from(text.parse::<i64>().unwrap()) {
                Ok(len) => Value::Array((0..len).map(|_| self.item()).collect()),
                Err(_) => Value::Nil,
            },
            _ => panic!("not a reply: {line:?}"),
        })
    }

    fn item(&mut self) -> Value {
        self.reply().unwrap_or_else(Value::Error)
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).unwrap();
        assert!(line.ends_with(b"\r\n"), "the server has gone: {line:?}");
        line.truncate(line.len() - 2);
        line
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }
}

/// Splits an error line as the engine does: nothing is taken off its front.
fn parse_error(line: &str) -> ServerError {
    let (code, message) = line.split_once(' ').unwrap_or((line, ""));
    ServerError {
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

fn encode(command: &Command, bytes: &mut Vec<u8>) {
    write!(bytes, "*{}\r\n", command.args().len()).unwrap();
    for arg in command.args() {
        write!(bytes, "${}\r\n", arg.len()).unwrap();
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
}
