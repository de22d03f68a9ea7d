//! Replies and pushes as RESP2.

use redlatch_core::runtime::{Push, Reply, ServerError, Value};

/// Appends a reply.
pub(crate) fn reply(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Ok(value) => self::value(out, value),
        Err(error) => self::error(out, error),
    }
}

/// Appends a push; `subscriptions` is the number of the client's subscriptions after it.
pub(super) fn push(out: &mut Vec<u8>, push: &Push, subscriptions: usize) {
    let (what, channel, payload) = match push {
        Push::Message { channel, payload } => (&b"message"[..], channel, Some(payload)),
        Push::Subscribed(channel) => (&b"subscribe"[..], channel, None),
        Push::Unsubscribed(channel) => (&b"unsubscribe"[..], channel, None),
    };
    head(out, b'*', 3);
    bulk(out, what);
    bulk(out, channel);
    match payload {
        Some(payload) => bulk(out, payload),
        None => head(out, b':', subscriptions),
    }
}

fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Nil => out.extend_from_slice(b"$-1\r\n"),
        Value::Int(number) => line(out, b':', &number.to_string()),
        Value::Bulk(bytes) => bulk(out, bytes),
        Value::Status(text) => line(out, b'+', text),
        Value::Array(items) => {
            head(out, b'*', items.len());
            items.iter().for_each(|item| self::value(out, item));
        }
        Value::Error(error) => self::error(out, error),
    }
}

fn error(out: &mut Vec<u8>, error: &ServerError) {
    let ServerError { code, message } = error;
    if message.is_empty() {
        return line(out, b'-', code);
    }
    line(out, b'-', &format!("{code} {message}"));
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    line(out, kind, &count.to_string());
}

/// Appends a line without line ends in its text. The text may be a client's, by way of a script,
/// and a line end in it would begin another reply.
fn line(out: &mut Vec<u8>, kind: u8, text: &str) {
    out.push(kind);
    let clean = |byte| match byte {
        b'\r' | b'\n' => b' ',
        byte => byte,
    };
    out.extend(text.bytes().map(clean));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_has_its_form() {
        let array = Value::Array(vec![
            Value::Nil,
            Value::Int(-7),
            Value::Bulk(b"a\r\n\0".to_vec()),
            Value::Array(Vec::new()),
            Value::Error(ServerError::parse("OOPS")),
        ]);
        for (told, expected) in [
            (Ok(Value::Status("OK".into())), "+OK\r\n"),
            (Ok(Value::Status("a\r\n+b".into())), "+a  +b\r\n"),
            (Err(ServerError::parse("ERR no\n")), "-ERR no \r\n"),
            (
                Ok(array),
                "*5\r\n$-1\r\n:-7\r\n$4\r\na\r\n\0\r\n*0\r\n-OOPS\r\n",
            ),
        ] {
            let mut out = Vec::new();
            reply(&mut out, &told);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
