//! The codec: commands as bytes, and bytes as replies and pushes of RESP2 and RESP3.
//!
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

use crate::runtime::{Command, INVALIDATED, Push, Reply, ServerError, Value};

/// Appends `command` as the server reads it.
pub(crate) fn encode(command: &Command, out: &mut Vec<u8>) {
    let args = command.args();
    out.reserve(command.payload_len() + args.len() * 12 + 12);
    let mut digits = itoa::Buffer::new();
    let mut head = |kind, count: usize, out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(digits.format(count).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    head(b'*', args.len(), out);
    for arg in args {
        head(b'$', arg.len(), out);
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// One reply or push of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The reply to the oldest command without one.
    Reply(Reply),
    /// A push of RESP3.
    Push(Vec<Value>),
}

/// The bytes are outside of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(super) String);

/// Reads items from bytes that arrive in any portions. Elements are read once, whatever the size of
/// the item that they belong to. Only the line of an incomplete element is read again.
///
/// Types of RESP3 become those of RESP2, as [`Value`] describes. Attributes are dropped.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// The start of what is not read yet.
    at: usize,
    /// The lists that are not complete, the innermost last.
    open: Vec<Open>,
}

/// A list that is not complete.
#[derive(Debug)]
struct Open {
    kind: Kind,
    left: usize,
    items: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Also a list.
    Value,
    Push,
    /// Precedes a value, and is no element of the list around it.
    Attribute,
}

impl Decoder {
    /// Makes room for `more` bytes at least behind those that are not read yet, and returns the
    /// buffer to append to.
    pub(crate) fn room(&mut self, more: usize) -> &mut Vec<u8> {
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(more);
            self.at = 0;
        } else if self.at > self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.reserve(more);
        &mut self.bytes
    }

    /// Reads the next item, if all of its bytes are there.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, Malformed> {
        loop {
            let mut done = match self.element()? {
                None => return Ok(None),
                Some(Element::Value(value)) => Some((Kind::Value, value)),
                Some(Element::Open(open)) => {
                    if self.open.len() >= DEPTH {
                        return Err(Malformed("lists too deep in lists".to_owned()));
                    }
                    self.open.push(open);
                    self.close()
                }
            };
            // A value may complete the list around it, and that the next one.
            while let Some((kind, value)) = done {
                if let Some(around) = self.open.last_mut() {
                    if kind != Kind::Attribute {
                        around.add(value);
                    }
                    done = self.close();
                    continue;
                }
                return Ok(Some(match (kind, value) {
                    (Kind::Attribute, _) => break,
                    (Kind::Push, Value::Array(items)) => Item::Push(items),
                    (_, Value::Error(error)) => Item::Reply(Err(error)),
                    (_, value) => Item::Reply(Ok(value)),
                }));
            }
        }
    }

    /// Ends the innermost list if it is complete.
    fn close(&mut self) -> Option<(Kind, Value)> {
        let open = self.open.pop_if(|open| open.left == 0)?;
        Some((open.kind, Value::Array(open.items)))
    }

    /// Reads one value, or the head of a list, if its bytes are there.
    fn element(&mut self) -> Result<Option<Element>, Malformed> {
        let rest = &self.bytes[self.at..];
        let Some(&kind) = rest.first() else {
            return Ok(None);
        };
        if !b"+-:$*_#,(!=%~>|".contains(&kind) {
            let start = String::from_utf8_lossy(&rest[..rest.len().min(20)]).into_owned();
            return Err(Malformed(format!("no reply begins like {start:?}")));
        }
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            return match rest.len() {
                ..=LONGEST_LINE => Ok(None),
                _ => Err(Malformed("a line without an end".to_owned())),
            };
        };
        let line = &rest[1..end];
        let mut next = end + 2;
        let text = || String::from_utf8_lossy(line).into_owned();
        let value = match kind {
            b'+' => Value::Status(text()),
            b'-' => Value::Error(ServerError::parse(&text())),
            b':' => Value::Int(number(line)?),
            b'_' => Value::Nil,
            b'#' => Value::Int(i64::from(line == b"t")),
            b',' | b'(' => Value::Bulk(line.to_vec()),
            b'$' | b'*' if line == b"-1" => Value::Nil,
            b'$' | b'!' | b'=' => {
                let length = count(line)?;
                if length > LONGEST_STRING {
                    return Err(Malformed(format!("a string of {length} bytes")));
                }
                let Some(string) = rest.get(next..next + length + 2) else {
                    return Ok(None);
                };
                let Some(string) = string.strip_suffix(b"\r\n") else {
                    let why = format!("a string longer than its {length} bytes");
                    return Err(Malformed(why));
                };
                next += length + 2;
                string_value(kind, string)
            }
            _ => {
                let open = Open::new(kind, count(line)?)?;
                self.at += next;
                return Ok(Some(Element::Open(open)));
            }
        };
        self.at += next;
        Ok(Some(Element::Value(value)))
    }
}

/// A value without others inside, or the head of a list.
enum Element {
    Value(Value),
    Open(Open),
}

impl Open {
    fn new(kind: u8, count: usize) -> Result<Self, Malformed> {
        let (kind, width) = match kind {
            b'>' => (Kind::Push, 1),
            b'|' => (Kind::Attribute, 2),
            b'%' => (Kind::Value, 2),
            _ => (Kind::Value, 1),
        };
        let left = count.checked_mul(width);
        let left = left.ok_or_else(|| Malformed(format!("a map of {count} entries")))?;
        // The count is the server's word; memory follows what has arrived.
        let items = Vec::with_capacity(left.min(64));
        Ok(Self { kind, left, items })
    }

    fn add(&mut self, value: Value) {
        self.items.push(value);
        self.left -= 1;
    }
}

fn string_value(kind: u8, string: &[u8]) -> Value {
    match kind {
        b'!' => Value::Error(ServerError::parse(&String::from_utf8_lossy(string))),
        // The format of a verbatim string, three letters and a colon, comes first.
        b'=' => Value::Bulk(string.get(4..).unwrap_or_default().to_vec()),
        _ => Value::Bulk(string.to_vec()),
    }
}

fn count(line: &[u8]) -> Result<usize, Malformed> {
    let count = usize::try_from(number(line)?);
    count.map_err(|_| Malformed(format!("a count: {}", String::from_utf8_lossy(line))))
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(line).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Malformed(format!("no number: {:?}", String::from_utf8_lossy(line))))
}

/// Reads the items of a push. Returns `None` if it is about neither a subscription nor a changed
/// key. RESP2 sends the same items as a list.
///
/// A changed key is a message on the channel that RESP2 has for it. The payload is empty if all
/// keys are gone. Only batches for prefixes, which are not used, have more than one key.
pub(crate) fn told(items: &[Value]) -> Option<Push> {
    if let [Value::Bulk(word), changed] = items
        && word == b"invalidate"
    {
        let payload = match changed {
            Value::Nil => Vec::new(),
            Value::Array(keys) => keys.first()?.as_str()?.into(),
            _ => return None,
        };
        let channel = INVALIDATED.into();
        return Some(Push::Message { channel, payload });
    }
    let bytes = |at: usize| match items.get(at)? {
        Value::Bulk(bytes) => Some(bytes.clone()),
        Value::Status(text) => Some(text.clone().into_bytes()),
        _ => None,
    };
    let (word, channel) = (bytes(0)?, bytes(1)?);
    match word.as_slice() {
        b"message" | b"smessage" => {
            let payload = bytes(2)?;
            Some(Push::Message { channel, payload })
        }
        b"subscribe" | b"ssubscribe" => Some(Push::Subscribed(channel)),
        b"unsubscribe" | b"sunsubscribe" => Some(Push::Unsubscribed(channel)),
        _ => None,
    }
}

/// The deepest nesting of lists.
const DEPTH: usize = 100;

/// The longest line, which is an error of a script at most.
const LONGEST_LINE: usize = 1 << 20;

/// The longest string that a server sends, in bytes: `proto-max-bulk-len`.
const LONGEST_STRING: usize = 1 << 29;

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::{
        fuzzing::{read, replies},
        runtime::values::{any_value, bulk},
    };

    /// Reads bytes that are exactly one item.
    fn item(wire: &[u8]) -> Item {
        let (mut items, is_refused) = read([wire].into_iter());
        assert!(items.len() == 1 && !is_refused, "{items:?}");
        items.remove(0)
    }

    fn parse(wire: &str) -> Reply {
        match item(wire.as_bytes()) {
            Item::Reply(reply) => reply,
            Item::Push(items) => panic!("a push: {items:?}"),
        }
    }

    #[test]
    fn every_type_of_both_protocols_has_its_value() {
        let status = |text: &str| Value::Status(text.into());
        let list = |items: &[Value]| Value::Array(items.to_vec());
        let cases = [
            ("$-1\r\n", Value::Nil),
            ("*-1\r\n", Value::Nil),
            ("_\r\n", Value::Nil),
            (":-7\r\n", Value::Int(-7)),
            ("#t\r\n", Value::Int(1)),
            ("#f\r\n", Value::Int(0)),
            ("$3\r\na\r\n\r\n", bulk("a\r\n")),
            ("$0\r\n\r\n", bulk("")),
            ("=6\r\ntxt:ab\r\n", bulk("ab")),
            (",1.5\r\n", bulk("1.5")),
            (",3\r\n", bulk("3")),
            (",inf\r\n", bulk("inf")),
            (",-inf\r\n", bulk("-inf")),
            (",nan\r\n", bulk("nan")),
            (
                "(-123456789012345678901234567890\r\n",
                bulk("-123456789012345678901234567890"),
            ),
            ("+OK\r\n", status("OK")),
            ("+PONG\r\n", status("PONG")),
            ("*0\r\n", list(&[])),
            (
                "*2\r\n:1\r\n*1\r\n+a\r\n",
                list(&[Value::Int(1), list(&[status("a")])]),
            ),
            ("~1\r\n:1\r\n", list(&[Value::Int(1)])),
            (
                "%2\r\n+a\r\n:1\r\n+b\r\n_\r\n",
                list(&[status("a"), Value::Int(1), status("b"), Value::Nil]),
            ),
            ("|1\r\n+ttl\r\n:9\r\n:5\r\n", Value::Int(5)),
        ];
        let all = cases.each_ref().map(|(wire, _)| *wire).concat();
        let mut items = Vec::new();
        for (wire, expected) in cases {
            assert_eq!(parse(wire), Ok(expected.clone()), "{wire:?}");
            items.push(Item::Reply(Ok(expected)));
        }
        assert_eq!(read([all.as_bytes()].into_iter()), (items, false));
        replies(all.as_bytes());
    }

    #[test]
    fn errors_keep_code_and_text_of_the_wire() {
        for line in [
            "MOVED 3999 127.0.0.1:6381",
            "ERR Error running script (call to f_1): @user_script:1: -OOM not allowed",
            "ALONE",
            "TWO  spaces",
        ] {
            let expected = Err(ServerError::parse(line));
            assert_eq!(parse(&format!("-{line}\r\n")), expected, "{line}");
        }
        let blob = "!21\r\nSYNTAX invalid syntax\r\n";
        let expected = Err(ServerError::parse("SYNTAX invalid syntax"));
        assert_eq!(parse(blob), expected);
        replies(blob.as_bytes());
        let behind_attribute = parse("|1\r\n+a\r\n:1\r\n-ERR no\r\n");
        assert_eq!(behind_attribute, Err(ServerError::parse("ERR no")));
    }

    #[test]
    fn a_command_is_packed_as_it_is() {
        let command = Command::new("SET")
            .arg("k")
            .arg([0_u8, 255, b'\r', b'\n'])
            .arg("");
        let mut packed = b"before".to_vec();
        encode(&command, &mut packed);
        let wire = b"before*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\x00\xff\r\n\r\n$0\r\n\r\n";
        assert_eq!(packed, wire);
    }

    /// A changed key is a message of its channel.
    #[test]
    fn pushes_about_subscriptions_and_keys_are_told_and_others_dropped() {
        let message = |channel: &str, payload: &str| Push::Message {
            channel: channel.into(),
            payload: payload.into(),
        };
        for (words, expected) in [
            ("subscribe c :1", Some(Push::Subscribed(b"c".to_vec()))),
            ("ssubscribe c :1", Some(Push::Subscribed(b"c".to_vec()))),
            ("unsubscribe c :0", Some(Push::Unsubscribed(b"c".to_vec()))),
            ("sunsubscribe c :0", Some(Push::Unsubscribed(b"c".to_vec()))),
            ("unsubscribe _ :0", None),
            ("message c hi", Some(message("c", "hi"))),
            ("smessage c hi", Some(message("c", "hi"))),
            ("invalidate k", None),
            ("invalidate *0", None),
            ("invalidate *1\r\n$1\r\nk", Some(message(INVALIDATED, "k"))),
            // All keys are gone.
            ("invalidate _", Some(message(INVALIDATED, ""))),
            ("pmessage * c hi", None),
        ] {
            let items = words.split(' ').map(|word| match word.as_bytes() {
                [b'_'] | [b':' | b'*', _, ..] => format!("{word}\r\n"),
                text => format!("${}\r\n{word}\r\n", text.len()),
            });
            let items: Vec<_> = items.collect();
            let wire = format!(">{}\r\n{}", items.len(), items.concat());
            let Item::Push(items) = item(wire.as_bytes()) else {
                panic!("not a push: {words}");
            };
            assert_eq!(told(&items), expected, "{words}");
            replies(wire.as_bytes());
        }
    }

    /// Returns `value` as a server writes it with RESP2.
    fn wire(value: &Value) -> Vec<u8> {
        match value {
            Value::Nil => b"$-1\r\n".to_vec(),
            Value::Int(int) => format!(":{int}\r\n").into_bytes(),
            Value::Bulk(bytes) => {
                let head = format!("${}\r\n", bytes.len());
                [head.as_bytes(), bytes, b"\r\n"].concat()
            }
            Value::Status(text) => format!("+{text}\r\n").into_bytes(),
            Value::Error(error) => format!("-{}\r\n", error.to_string().trim_end()).into_bytes(),
            Value::Array(items) => {
                let head = format!("*{}\r\n", items.len()).into_bytes();
                items
                    .iter()
                    .map(wire)
                    .fold(head, |all, item| [all, item].concat())
            }
        }
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(values in vec(any_value(&["OK", ""]), 1..5)) {
            let whole: Vec<u8> = values.iter().flat_map(wire).collect();
            let items = values.into_iter().map(|value| match value {
                Value::Error(error) => Item::Reply(Err(error)),
                value => Item::Reply(Ok(value)),
            });
            let items: Vec<_> = items.collect();
            prop_assert_eq!(read([&whole[..]].into_iter()), (items, false));
            replies(&whole);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(prop_oneof![
            3 => select(&b"*$:-+_#,(!=%~>|\r\n019"[..]),
            1 => any::<u8>(),
        ], 0..64)) {
            replies(&bytes);
        }
    }

    #[test]
    fn bytes_outside_of_the_protocol_are_refused() {
        let deep = "*1\r\n".repeat(DEPTH + 1);
        let long = format!("+{}", "x".repeat(LONGEST_LINE + 1));
        for wire in [
            "HTTP/1.1 400 Bad Request\r\n",
            ":seven\r\n",
            "$x\r\n",
            "$600000000\r\n",
            "$2\r\nabc\r\n",
            "$-7\r\n",
            ">-1\r\n",
            "|-1\r\n",
            &deep,
            &long,
        ] {
            assert!(read([wire.as_bytes()].into_iter()).1, "{wire:.40}");
        }
        // A count is believed, but takes no memory before its elements.
        let huge = &b"*9223372036854775807\r\n:1\r\n"[..];
        assert_eq!(read([huge].into_iter()), (vec![], false));
    }
}
