//! Requests as they arrive over a socket: arrays of bulk strings, or lines of plain words.

use redlatch_core::runtime::Command;

/// Reads requests from bytes that arrive in pieces of any size.
///
/// [`feed`](Self::feed) takes the bytes, and [`next`](Self::next) returns requests until it needs
/// more bytes. After an error the following bytes have no meaning, and every later call returns the
/// error again. The memory is bounded by [`MAX_REQUEST`] and the bytes that were fed since.
#[derive(Debug, Default)]
pub(crate) struct RequestParser {
    bytes: Vec<u8>,
    at: usize,
    array: Option<Array>,
    broken: Option<ProtocolError>,
}

/// The error in a request, in a server's words.
pub(crate) type ProtocolError = &'static str;

/// An array of which a part has arrived.
#[derive(Debug)]
struct Array {
    command: Command,
    /// The number of arguments that are still missing.
    missing: usize,
    /// The length of the next argument, if the length has arrived.
    length: Option<usize>,
}

impl RequestParser {
    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete request; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not the protocol, or if the request is too large.
    pub(crate) fn next(&mut self) -> Result<Option<Command>, ProtocolError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let next = self.advance();
        if let Err(error) = next {
            *self = Self {
                broken: Some(error),
                ..Self::default()
            };
        }
        next
    }

    /// Advances to the end of the request; `None` if the bytes run out before.
    fn advance(&mut self) -> Result<Option<Command>, ProtocolError> {
        loop {
            let Some(mut array) = self.array.take() else {
                let Some(line) = self.line("too big inline request")? else {
                    return Ok(None);
                };
                if let Some(count) = line.strip_prefix(b"*") {
                    self.array = start(count)?;
                } else if let Some(command) = words(line)? {
                    return Ok(Some(command));
                }
                continue;
            };
            if array.missing == 0 {
                return Ok(Some(array.command));
            }
            let advanced = self.argument(&mut array)?;
            self.array = Some(array);
            if !advanced {
                return Ok(None);
            }
        }
    }

    /// Takes the length of the next argument, or the argument. Returns whether it was there.
    fn argument(&mut self, array: &mut Array) -> Result<bool, ProtocolError> {
        let Some(length) = array.length else {
            let Some(line) = self.line("too big count string")? else {
                return Ok(false);
            };
            array.length = Some(bulk_length(line, array.command.payload_len())?);
            return Ok(true);
        };
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Ok(false);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err("expected the end of a line after a bulk");
        }
        array.command.push(&rest[..length]);
        self.at += length + 2;
        array.missing -= 1;
        array.length = None;
        Ok(true)
    }

    /// Takes a complete line without its end; `None` if the line is not complete.
    fn line(&mut self, too_long: ProtocolError) -> Result<Option<&[u8]>, ProtocolError> {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(MAX_LINE)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return if rest.len() < MAX_LINE {
                Ok(None)
            } else {
                Err(too_long)
            };
        };
        let start = self.at;
        self.at += end + 1;
        let line = &self.bytes[start..start + end];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// Reads the number of arguments; `None` for an empty request, which servers ignore.
fn start(count: &[u8]) -> Result<Option<Array>, ProtocolError> {
    let count = number(count).filter(|count| *count <= MAX_ARGUMENTS);
    let count = count.ok_or("invalid multibulk length")?;
    let missing = usize::try_from(count).unwrap_or(0);
    Ok((missing > 0).then(|| Array {
        command: Command::with_capacity(missing.min(16), 64),
        missing,
        length: None,
    }))
}

fn bulk_length(line: &[u8], before: usize) -> Result<usize, ProtocolError> {
    let digits = line
        .strip_prefix(b"$")
        .ok_or("expected '$', got something else")?;
    number(digits)
        .and_then(|length| usize::try_from(length).ok())
        .filter(|length| before + length <= MAX_REQUEST)
        .ok_or("invalid bulk length")
}

/// Reads an integer with so few digits that it cannot overflow.
fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Splits an inline request into words; `None` for an empty line.
fn words(line: &[u8]) -> Result<Option<Command>, ProtocolError> {
    if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return Err("quotes are not taken in inline requests");
    }
    let mut command = Command::with_capacity(4, line.len());
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .for_each(|word| command.push(word));
    let is_empty = command.args().len() == 0;
    Ok((!is_empty).then_some(command))
}

/// The limit in bytes for all arguments of one request.
pub(super) const MAX_REQUEST: usize = 64 << 20;
const MAX_ARGUMENTS: i64 = 1 << 20;
const MAX_LINE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let mut parser = RequestParser::default();
        let mut requests = Vec::new();
        for piece in pieces {
            parser.feed(piece);
            while let Some(command) = parser.next()? {
                requests.push(command.args().map(<[u8]>::to_vec).collect());
            }
        }
        Ok(requests)
    }

    fn encode(requests: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(format!("*{}\r\n", request.len()).into_bytes());
            for arg in request {
                bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
                bytes.extend_from_slice(arg);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        bytes
    }

    #[test]
    fn requests_of_all_shapes_are_read() {
        let args = |words: &[&str]| -> Vec<Vec<u8>> {
            words.iter().map(|word| word.as_bytes().to_vec()).collect()
        };
        let check = |bytes: &[u8], expected: &[&[&str]]| {
            let expected: Vec<_> = expected.iter().map(|words| args(words)).collect();
            assert_eq!(parse(&[bytes]), Ok(expected));
        };
        check(
            b"*2\r\n$3\r\nGET\r\n$0\r\n\r\nPING\r\n",
            &[&["GET", ""], &["PING"]],
        );
        check(b"\r\n*0\r\n*-1\r\n  SET  a b \nPI", &[&["SET", "a", "b"]]);
        check(b"*2\r\n$3\r\nGET\r\n$9", &[]);
    }

    #[test]
    fn protocol_error_is_final() {
        let long = vec![b'x'; MAX_LINE];
        let long_count = [b"*1\r\n$".as_slice(), &long].concat();
        let huge = format!("*2\r\n$1\r\nx\r\n${MAX_REQUEST}\r\n");
        for bytes in [
            b"*x\r\n".as_slice(),
            b"*\r\n",
            b"*1048577\r\n",
            b"*99999999999999999999\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$+1\r\n",
            b"*1\r\n$1\r\nxyz",
            b"SET a \"b\"\r\n",
            huge.as_bytes(),
            &long,
            &long_count,
        ] {
            let mut parser = RequestParser::default();
            parser.feed(bytes);
            let error = parser.next().unwrap_err();
            parser.feed(b"PING\r\n");
            assert_eq!(parser.next(), Err(error));
        }
    }

    proptest! {
        #[test]
        fn requests_are_read_however_they_are_split(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = encode(&requests);
            let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            ends.extend([0, bytes.len()]);
            ends.sort_unstable();
            let pieces: Vec<_> = ends.windows(2).map(|two| &bytes[two[0]..two[1]]).collect();
            prop_assert_eq!(parse(&pieces), Ok(requests));
        }

        #[test]
        fn random_bytes_do_not_panic(
            pieces in prop::collection::vec("[*$\\-0-9A-Z\r\n\\x00\u{ff} ]{0,30}", 0..12),
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut pieces: Vec<_> = pieces.iter().map(String::as_bytes).collect();
            pieces.push(&noise);
            let whole = parse(&[&pieces.concat()]);
            prop_assert_eq!(parse(&pieces), whole);
        }
    }
}
