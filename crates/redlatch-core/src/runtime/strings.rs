//! Many byte strings in one buffer.

use std::fmt::{self, Write};

/// A sequence of byte strings, each preceded by its length. One allocation holds any number of
/// them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    count: usize,
}

impl Strings {
    /// Creates an empty sequence with room for `count` strings of `bytes` bytes in total.
    pub(crate) fn with_capacity(count: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes + count * HEAD),
            count: 0,
        }
    }

    /// Appends one string.
    pub(crate) fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(&string.len().to_ne_bytes());
        self.bytes.extend_from_slice(string);
        self.count += 1;
    }

    /// Appends the `Display` text of one string.
    pub(crate) fn write(&mut self, string: impl fmt::Display) {
        let head = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD]);
        // Writing to a vector cannot fail.
        let _ = write!(Text(&mut self.bytes), "{string}");
        let start = head + HEAD;
        let len = self.bytes.len() - start;
        self.bytes[head..start].copy_from_slice(&len.to_ne_bytes());
        self.count += 1;
    }

    /// Returns the number of strings.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the total length of all strings in bytes.
    pub(crate) const fn payload_len(&self) -> usize {
        self.bytes.len() - self.count * HEAD
    }

    /// Returns an iterator over the strings.
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.bytes,
            count: self.count,
        }
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lossy = self.iter().map(String::from_utf8_lossy);
        f.debug_list().entries(lossy).finish()
    }
}

/// A buffer that text is appended to.
struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// An iterator over the remaining strings.
pub(crate) struct Iter<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk()?;
        let (string, rest) = rest.split_at(usize::from_ne_bytes(*len));
        self.rest = rest;
        self.count -= 1;
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Length of a length field in bytes.
const HEAD: usize = size_of::<usize>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_strings_are_read_back() {
        let mut strings = Strings::with_capacity(0, 0);
        assert_eq!((strings.iter().next(), strings.len()), (None, 0));
        strings.push(b"");
        strings.push(&[0, 255]);
        strings.write(12);
        strings.write("");
        let all: Vec<&[u8]> = strings.iter().collect();
        assert_eq!(all, [&b""[..], &[0, 255], b"12", b""]);
        assert_eq!((strings.len(), strings.payload_len()), (4, 4));
        let mut iter = strings.iter();
        iter.next();
        assert_eq!(iter.len(), 3);
    }
}
