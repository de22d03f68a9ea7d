//! RESP, as servers and clients speak: where a value ends, and what it says.

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

/// Splits a stream of bytes into RESP values. After the first bytes that are not RESP, the rest
/// passes through unchanged.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    buffer: Vec<u8>,
    opaque: bool,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// One whole value.
    Value(Vec<u8>),
    /// Bytes that are not RESP.
    Opaque(Vec<u8>),
}

impl Framer {
    /// Adds bytes as they arrive.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next piece, if it is complete.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        if self.buffer.is_empty() {
            return None;
        }
        if !self.opaque {
            match parse(&self.buffer) {
                Ok(None) => return None,
                Ok(Some((_, length))) => {
                    return Some(Frame::Value(self.buffer.drain(..length).collect()));
                }
                Err(NotResp) => self.opaque = true,
            }
        }
        Some(Frame::Opaque(std::mem::take(&mut self.buffer)))
    }

    /// Takes the next value, if it is complete, as what it says.
    #[cfg(unix)]
    pub(crate) fn next_reply(&mut self) -> Result<Option<Reply>, NotResp> {
        let parsed = parse(&self.buffer)?;
        Ok(parsed.map(|(reply, length)| {
            self.buffer.drain(..length);
            reply
        }))
    }

    /// Takes the rest of a stream that has ended in the middle of a value.
    pub(crate) fn rest(&mut self) -> Option<Frame> {
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty()).then_some(Frame::Opaque(rest))
    }
}

/// Returns the elements of an array of strings, the form of a request.
pub(crate) fn strings(value: &[u8]) -> Option<Vec<&[u8]>> {
    let (header, mut rest) = line(value)?;
    let count: usize = number(header.strip_prefix(b"*")?)?;
    let mut strings = Vec::new();
    for _ in 0..count {
        let (header, after) = line(rest)?;
        let length: usize = number(header.strip_prefix(b"$")?)?;
        let (string, after) = after.split_at_checked(length)?;
        rest = after.strip_prefix(b"\r\n")?;
        strings.push(string);
    }
    Some(strings)
}

/// Tells whether a value from the server is not a reply to a request: a RESP3 push, or its RESP2
/// form.
pub(crate) fn is_push(value: &[u8]) -> bool {
    let is_message = || match parse(value) {
        Ok(Some((Reply::Array(items), _))) => {
            matches!(items.first(), Some(Reply::Bulk(word)) if PUB_SUB.contains(&&word[..]))
        }
        _ => false,
    };
    value.starts_with(b">") || value.starts_with(b"*") && is_message()
}

/// What is no RESP.
#[derive(Debug)]
pub(crate) struct NotResp;

/// Reads the value at the start of `bytes`, and its length. `None` if it is incomplete. What only
/// RESP3 has becomes the nearest kind of reply.
fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, NotResp> {
    let Some(&kind) = bytes.first() else {
        return Ok(None);
    };
    if !KINDS.contains(&kind) {
        return Err(NotResp);
    }
    let Some((header, _)) = line(bytes) else {
        return Ok(None);
    };
    let (text, mut at) = (String::from_utf8_lossy(&header[1..]), header.len() + 2);
    let reply = match (kind, text.parse::<i64>()) {
        (b'-', _) => Reply::Error(text.into_owned()),
        (b'+' | b',' | b'#' | b'(', _) => Reply::Status(text.into_owned()),
        (b'_', _) => Reply::Nil,
        (_, Err(_)) => return Err(NotResp),
        (b':', Ok(number)) => Reply::Int(number),
        // In RESP2 a length of -1 means that there is no value.
        (_, Ok(length)) if length < 0 => Reply::Nil,
        (b'$' | b'=' | b'!', Ok(length)) => {
            let Some(bulk) = bytes.get(at..at + length as usize + 2) else {
                return Ok(None);
            };
            at += bulk.len();
            Reply::Bulk(bulk[..bulk.len() - 2].to_vec())
        }
        (_, Ok(length)) => {
            let items = match kind {
                b'%' => 2 * length,
                // Attributes precede the value that they describe.
                b'|' => 2 * length + 1,
                _ => length,
            };
            let mut array = Vec::new();
            for _ in 0..items {
                let Some((item, length)) = parse(&bytes[at..])? else {
                    return Ok(None);
                };
                array.push(item);
                at += length;
            }
            Reply::Array(array)
        }
    };
    Ok(Some((reply, at)))
}

/// Returns the first line and the bytes after it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

const KINDS: &[u8] = b"+-:$*_#,(!=%~>|";

const PUB_SUB: &[&[u8]] = &[
    b"message",
    b"pmessage",
    b"smessage",
    b"subscribe",
    b"psubscribe",
    b"ssubscribe",
    b"unsubscribe",
    b"punsubscribe",
    b"sunsubscribe",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_by(step: usize, bytes: &[u8]) -> Vec<Frame> {
        let mut framer = Framer::default();
        let mut frames = Vec::new();
        for piece in bytes.chunks(step) {
            framer.push(piece);
            while let Some(frame) = framer.next() {
                frames.push(frame);
            }
        }
        frames.extend(framer.rest());
        frames
    }

    #[test]
    fn values_come_out_whole_however_they_arrive() {
        let values: &[&[u8]] = &[
            b"+OK\r\n",
            b":-5\r\n",
            b"$-1\r\n",
            b"$4\r\n\r\n\r\n\r\n",
            b"*-1\r\n",
            b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
            b"%1\r\n+k\r\n*0\r\n",
            b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
            b">2\r\n+message\r\n$1\r\nx\r\n",
            b"_\r\n",
            b",inf\r\n",
            b"#t\r\n",
        ];
        let expected: Vec<_> = values
            .iter()
            .map(|value| Frame::Value(value.to_vec()))
            .collect();
        let stream = values.concat();
        for step in [1, 2, 3, 7, stream.len()] {
            assert_eq!(frames_by(step, &stream), expected, "in steps of {step}");
        }
    }

    #[test]
    fn the_rest_of_a_broken_stream_is_kept() {
        let expected = [
            Frame::Value(b":1\r\n".to_vec()),
            Frame::Opaque(b"$5\r\nab".to_vec()),
        ];
        assert_eq!(frames_by(3, b":1\r\n$5\r\nab"), expected);
    }

    #[test]
    fn messages_are_no_replies() {
        assert!(is_push(b">2\r\n+x\r\n+y\r\n"));
        assert!(is_push(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"));
        assert!(!is_push(b"*1\r\n$1\r\nx\r\n"));
        assert!(!is_push(b"*0\r\n"));
        assert!(!is_push(b"+OK\r\n"));
    }
}
