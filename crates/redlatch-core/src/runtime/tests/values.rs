//! Values of all types, for tests of readers.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

use super::{ServerError, Value};

/// Returns a configuration with at least 1024 cases. A reader looks at a few parts of a reply, and
/// only some cases change one of them.
pub(crate) fn many_cases() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    config.cases = config.cases.max(1024);
    config
}

/// Returns a string of bytes.
pub(crate) fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

/// Returns hosts and ports as servers announce them. Some of them are alike.
pub(crate) fn host_and_port() -> impl Strategy<Value = (String, u16)> {
    ("[a-z0-9.:-]{1,12}|a", prop_oneof![1_u16.., Just(7)])
}

/// Returns values of all types, with arrays inside of arrays. Many of their texts are `words`.
pub(crate) fn any_value(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    flat(words).prop_recursive(4, 64, 6, |inner| vec(inner, 0..6).prop_map(Value::Array))
}

/// Returns values of all types but arrays.
fn flat(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let error = "[A-Z]{1,8}( [a-z][ -~]{0,12}[a-z])?";
    prop_oneof![
        2 => Just(Value::Nil),
        2 => (0_i64..20_000).prop_map(Value::Int),
        2 => any::<i64>().prop_map(Value::Int),
        3 => select(words).prop_map(|word| Value::Bulk(word.into())),
        1 => vec(any::<u8>(), 0..12).prop_map(Value::Bulk),
        1 => "\\PC{0,12}".prop_map(Value::Status),
        1 => error.prop_map(|line| Value::Error(ServerError::parse(&line))),
    ]
}

/// Returns replies of `valid` in which any other value replaces one part.
pub(crate) fn damaged(
    valid: impl Strategy<Value = Value>,
    words: &'static [&'static str],
) -> impl Strategy<Value = Value> {
    let other = prop_oneof![4 => flat(words), 1 => any_value(words)];
    let parts = (valid, other, any::<Index>());
    parts.prop_map(|(mut reply, other, part)| {
        let mut part = part.index(size(&reply));
        if let Some(part) = nth(&mut reply, &mut part) {
            *part = other;
        }
        reply
    })
}

/// Returns the number of values in `value`, itself included.
fn size(value: &Value) -> usize {
    let items = value.as_array().unwrap_or_default().iter();
    1 + items.map(size).sum::<usize>()
}

/// Returns the value at position `left`, where 0 is `value` itself. Otherwise subtracts the number
/// of values.
fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        _ => None,
    }
}
