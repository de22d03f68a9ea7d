//! The boundaries between requests and between replies.

/// Splits a stream of bytes into RESP values. After the first bytes that are not RESP, the rest
/// passes through unchanged.
#[derive(Debug, Default)]
pub(super) struct Framer {
    buffer: Vec<u8>,
    opaque: bool,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// One whole value.
    Value(Vec<u8>),
    /// Bytes that are not RESP.
    Opaque(Vec<u8>),
}

impl Framer {
    /// Adds bytes as they arrive.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next piece, if it is complete.
    pub(super) fn next(&mut self) -> Option<Frame> {
        if self.buffer.is_empty() {
            return None;
        }
        if !self.opaque {
            match value_length(&self.buffer) {
                Ok(None) => return None,
                Ok(Some(length)) => {
                    return Some(Frame::Value(self.buffer.drain(..length).collect()));
                }
                Err(NotResp) => self.opaque = true,
            }
        }
        Some(Frame::Opaque(std::mem::take(&mut self.buffer)))
    }

    /// Takes the rest of a stream that has ended in the middle of a value.
    pub(super) fn rest(&mut self) -> Option<Frame> {
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty()).then_some(Frame::Opaque(rest))
    }
}

/// Returns the elements of an array of strings, the form of a request.
pub(super) fn strings(value: &[u8]) -> Option<Vec<&[u8]>> {
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
pub(super) fn is_push(value: &[u8]) -> bool {
    let first = || {
        let (header, rest) = line(value)?;
        header.strip_prefix(b"*")?;
        let (header, rest) = line(rest)?;
        let length: usize = number(header.strip_prefix(b"$")?)?;
        rest.get(..length)
    };
    value.starts_with(b">") || first().is_some_and(|word| PUB_SUB.contains(&word))
}

struct NotResp;

/// Returns the length of the value at the start of `bytes`, if it is complete.
fn value_length(bytes: &[u8]) -> Result<Option<usize>, NotResp> {
    let mut at = 0;
    let mut missing = 1;
    while missing > 0 {
        missing -= 1;
        let rest = &bytes[at..];
        let Some(&kind) = rest.first() else {
            return Ok(None);
        };
        if !KINDS.contains(&kind) {
            return Err(NotResp);
        }
        let Some((header, _)) = line(rest) else {
            return Ok(None);
        };
        at += header.len() + 2;
        // In RESP2 a length of -1 means that there is no value.
        let length: usize = match number::<i64>(&header[1..]) {
            Some(length) => usize::try_from(length).unwrap_or(0),
            None if SIZED.contains(&kind) => return Err(NotResp),
            None => 0,
        };
        match kind {
            b'$' | b'=' | b'!' if !header[1..].starts_with(b"-") => at += length + 2,
            b'*' | b'~' | b'>' => missing += length,
            b'%' => missing += 2 * length,
            // Attributes precede the value that they describe.
            b'|' => missing += 2 * length + 1,
            _ => {}
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
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
const SIZED: &[u8] = b"$*!=%~>|";

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
