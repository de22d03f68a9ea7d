//! Conversions between this crate's commands and values and those of the `redis` crate.

use redis::{Cmd, PushInfo, PushKind, RedisWrite, ToRedisArgs};

use crate::runtime::{Command, Push, Reply, ServerError, Value};

/// Converts a command, with one allocation for each of the two buffers.
pub(super) fn cmd(command: &Command) -> Cmd {
    let args = command.args();
    let mut cmd = Cmd::with_capacity(args.len(), command.payload_len());
    for arg in args {
        cmd.write_arg(arg);
    }
    cmd
}

/// Converts a top-level value to the reply to one command.
pub(super) fn reply(raw: redis::Value) -> Reply {
    match raw {
        redis::Value::ServerError(error) => Err(server_error(&error)),
        redis::Value::Attribute { data, .. } => reply(*data),
        other => Ok(value(other)),
    }
}

/// Converts a value, and maps RESP3 types to RESP2 types as [`Value`] describes. Attributes are
/// dropped.
pub(super) fn value(raw: redis::Value) -> Value {
    match raw {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(int) => Value::Int(int),
        redis::Value::Boolean(truth) => Value::Int(i64::from(truth)),
        redis::Value::BulkString(bytes) => Value::Bulk(bytes),
        redis::Value::VerbatimString { text, .. } => Value::Bulk(text.into_bytes()),
        redis::Value::Double(double) => Value::Bulk(double_text(double).into_bytes()),
        // The type of a big number depends on a feature that the application may enable. Both types
        // write their digits.
        redis::Value::BigNumber(number) => Value::Bulk(number.to_redis_args().concat()),
        redis::Value::Okay => Value::Status("OK".to_owned()),
        redis::Value::SimpleString(text) => Value::Status(text),
        redis::Value::Array(items) | redis::Value::Set(items) => array(items),
        redis::Value::Map(entries) => Value::Array(
            entries
                .into_iter()
                .flat_map(|(key, entry)| [value(key), value(entry)])
                .collect(),
        ),
        redis::Value::Attribute { data, .. } => value(*data),
        redis::Value::Push { data, .. } => array(data),
        redis::Value::ServerError(error) => Value::Error(server_error(&error)),
        unheard_of => Value::Bulk(format!("{unheard_of:?}").into_bytes()),
    }
}

/// Converts an error. The crate has split the error line at the first space.
pub(super) fn server_error(error: &redis::ServerError) -> ServerError {
    ServerError::new(error.code(), error.details().unwrap_or_default())
}

/// Converts a push. Returns `None` if it is not about a subscription.
pub(super) fn push(info: PushInfo) -> Option<Push> {
    let mut data = info.data.into_iter().map(bytes);
    let channel = data.next().flatten()?;
    match info.kind {
        PushKind::Message | PushKind::SMessage => {
            let payload = data.next().flatten()?;
            Some(Push::Message { channel, payload })
        }
        PushKind::Subscribe | PushKind::SSubscribe => Some(Push::Subscribed(channel)),
        PushKind::Unsubscribe | PushKind::SUnsubscribe => Some(Push::Unsubscribed(channel)),
        _ => None,
    }
}

fn array(items: Vec<redis::Value>) -> Value {
    Value::Array(items.into_iter().map(value).collect())
}

fn bytes(raw: redis::Value) -> Option<Vec<u8>> {
    match raw {
        redis::Value::BulkString(bytes) => Some(bytes),
        redis::Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

fn double_text(double: f64) -> String {
    if double.is_nan() {
        "nan".to_owned()
    } else {
        double.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::runtime::values::any_value;

    fn parse(wire: &str) -> Reply {
        reply(redis::parse_redis_value(wire.as_bytes()).unwrap())
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn every_type_of_both_protocols_has_its_value() {
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
            ("+OK\r\n", Value::Status("OK".into())),
            ("+PONG\r\n", Value::Status("PONG".into())),
            ("*0\r\n", Value::Array(vec![])),
            ("*2\r\n:1\r\n*1\r\n+a\r\n", {
                let inner = Value::Array(vec![Value::Status("a".into())]);
                Value::Array(vec![Value::Int(1), inner])
            }),
            ("~1\r\n:1\r\n", Value::Array(vec![Value::Int(1)])),
            (
                "%2\r\n+a\r\n:1\r\n+b\r\n_\r\n",
                Value::Array(vec![
                    Value::Status("a".into()),
                    Value::Int(1),
                    Value::Status("b".into()),
                    Value::Nil,
                ]),
            ),
            ("|1\r\n+ttl\r\n:9\r\n:5\r\n", Value::Int(5)),
        ];
        for (wire, expected) in cases {
            assert_eq!(parse(wire), Ok(expected), "{wire:?}");
        }
    }

    #[test]
    fn errors_keep_code_and_text_of_the_wire() {
        let lines = [
            "ERR wrong number of arguments for 'get' command",
            "NOSCRIPT No matching script. Please use EVAL.",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 host.example:6381",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "NOPERM User bob has no permissions to run the 'get' command",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "READONLY You can't write against a read only replica.",
            "CLUSTERDOWN Hash slot not served",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "EXECABORT Transaction discarded because of previous errors.",
            "NOTBUSY No scripts in execution right now.",
            "NOREPLICAS Not enough good replicas to write.",
            "ERR Error running script (call to f_1): @user_script:1: -OOM not allowed",
            "ALONE",
            "TWO  spaces",
        ];
        for line in lines {
            let expected = ServerError::parse(line);
            assert_eq!(
                parse(&format!("-{line}\r\n")),
                Err(expected.clone()),
                "{line}"
            );
            let inside = parse(&format!("*2\r\n-{line}\r\n:1\r\n"));
            let array = Value::Array(vec![Value::Error(expected), Value::Int(1)]);
            assert_eq!(inside, Ok(array), "{line}");
        }
        let blob = parse("!21\r\nSYNTAX invalid syntax\r\n");
        assert_eq!(blob, Err(ServerError::parse("SYNTAX invalid syntax")));
        let behind_attribute = parse("|1\r\n+a\r\n:1\r\n-ERR no\r\n");
        assert_eq!(behind_attribute, Err(ServerError::parse("ERR no")));
    }

    #[test]
    fn a_command_is_packed_as_it_is() {
        let command = Command::new("SET")
            .arg("k")
            .arg([0_u8, 255, b'\r', b'\n'])
            .arg("");
        let packed = cmd(&command).get_packed_command();
        let wire = b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\x00\xff\r\n\r\n$0\r\n\r\n";
        assert_eq!(packed, wire);
    }

    #[test]
    fn pushes_about_subscriptions_are_told_and_others_dropped() {
        let parse = |wire: &str| match redis::parse_redis_value(wire.as_bytes()).unwrap() {
            redis::Value::Push { kind, data } => push(PushInfo { kind, data }),
            other => panic!("not a push: {other:?}"),
        };
        let c = || b"c".to_vec();
        let message = Some(Push::Message {
            channel: c(),
            payload: b"hi".to_vec(),
        });
        let cases = [
            (
                ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
                Some(Push::Subscribed(c())),
            ),
            (
                ">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n",
                Some(Push::Subscribed(c())),
            ),
            (
                ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
                Some(Push::Unsubscribed(c())),
            ),
            (
                ">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n",
                Some(Push::Unsubscribed(c())),
            ),
            (">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n", None),
            (
                ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
                message.clone(),
            ),
            (">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", message),
            (">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", None),
            (
                ">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n",
                None,
            ),
        ];
        for (wire, expected) in cases {
            assert_eq!(parse(wire), expected, "{wire:?}");
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

    /// Returns replies of all types of RESP3.
    fn any_resp3() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            any_value(&["OK", "message", "subscribe"]).prop_map(|value| wire(&value)),
            any::<f64>().prop_map(|double| format!(",{double}\r\n").into_bytes()),
            any::<bool>()
                .prop_map(|truth| format!("#{}\r\n", if truth { 't' } else { 'f' }).into()),
            "-?[1-9][0-9]{0,40}".prop_map(|number| format!("({number}\r\n").into_bytes()),
            "[ -~]{0,9}".prop_map(|text| format!("={}\r\ntxt:{text}\r\n", text.len() + 4).into()),
            "[A-Z]{1,9}".prop_map(|text| format!("!{}\r\n{text}\r\n", text.len()).into()),
            Just(b"_\r\n".to_vec()),
        ];
        leaf.prop_recursive(3, 32, 4, |inner| {
            let list = ("[*~]", vec(inner.clone(), 0..4));
            let push = (
                "s?(message|(un)?subscribe)|invalidate",
                vec(inner.clone(), 0..4),
            );
            let pairs = ("[%|]", vec((inner.clone(), inner.clone()), 0..3), inner);
            prop_oneof![
                list.prop_map(|(kind, items)| {
                    [format!("{kind}{}\r\n", items.len()).into(), items.concat()].concat()
                }),
                push.prop_map(|(kind, items)| {
                    let head = format!(">{}\r\n+{kind}\r\n", items.len() + 1);
                    [head.into(), items.concat()].concat()
                }),
                pairs.prop_map(|(kind, pairs, behind)| {
                    let head = format!("{kind}{}\r\n", pairs.len()).into_bytes();
                    let entries = pairs.into_iter().flat_map(|(key, entry)| [key, entry]);
                    // A value follows an attribute.
                    let behind = if kind == "|" { behind } else { Vec::new() };
                    [head, Vec::from_iter(entries).concat(), behind].concat()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(value in any_value(&["OK", ""])) {
            let raw = redis::parse_redis_value(&wire(&value)).unwrap();
            let expected = match value {
                Value::Error(error) => Err(error),
                value => Ok(value),
            };
            prop_assert_eq!(reply(raw), expected);
        }

        #[test]
        fn any_reply_and_push_is_read(wire in any_resp3()) {
            let raw = redis::parse_redis_value(&wire).unwrap();
            if let redis::Value::Push { kind, data } = raw.clone() {
                let _ = push(PushInfo { kind, data });
            }
            let is_error = matches!(raw, redis::Value::ServerError(_));
            prop_assert!(reply(raw).is_err() || !is_error);
        }
    }
}
