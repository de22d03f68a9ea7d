// Valid and invalid replies of a server, for tests of decoders.
//
// The tests of the sibling crates include this file as well, below a module that has `Items` and
// `Value` in scope.

use std::cell::Cell;

use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use redlatch_lua::Source;

use super::{Items, Value};

/// The same as [`decodes_anything`], for a decoder that gets the items of a reply of `script`.
pub(super) fn reads_anything<R, E>(
    script: &'static Source,
    words: &[&str],
    read: impl Fn(&Items<'_>) -> Result<R, E>,
) {
    decodes_anything(words, |reply| {
        let items = Items::new(script, reply).map_err(drop)?;
        read(&items).map_err(drop)
    });
}

/// Passes many replies to a decoder. Their second item is mostly one of `words`, the answers that
/// the decoder knows. No reply may cause a panic. At least one must be decoded successfully, since
/// the test would show nothing otherwise.
pub(super) fn decodes_anything<R, E>(words: &[&str], decode: impl Fn(&Value) -> Result<R, E>) {
    let mut config = ProptestConfig::default();
    config.cases = config.cases.max(CASES);
    let understood = Cell::new(0_u32);
    let outcome = TestRunner::new(config).run(&replies(words), |reply| {
        understood.set(understood.get() + u32::from(decode(&reply).is_ok()));
        Ok(())
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(understood.get() > 0, "no reply was understood");
}

fn replies(words: &[&str]) -> impl Strategy<Value = Value> + use<> {
    let words: Vec<_> = words.iter().map(|word| bulk(word)).collect();
    let time = prop_oneof![6 => number(), 1 => item()];
    let rest = prop_oneof![3 => numbers(), 1 => items(&words)];
    let list = (time, select(words.clone()), rest)
        .prop_map(|(time, word, rest)| Value::Array([time, word].into_iter().chain(rest).collect()))
        .boxed();
    let text = list.clone().prop_map(|list| {
        let items = list.as_array().unwrap_or_default().iter();
        let texts: Vec<_> = items
            .map(|item| item.as_str().unwrap_or_default())
            .collect();
        bulk(&texts.join(" "))
    });
    prop_oneof![
        6 => list,
        2 => text,
        1 => items(&words).prop_map(Value::Array),
        1 => item(),
    ]
}

fn items(words: &[Value]) -> BoxedStrategy<Vec<Value>> {
    let word = select(words.to_vec());
    prop::collection::vec(prop_oneof![word, item()], 0..16).boxed()
}

fn numbers() -> BoxedStrategy<Vec<Value>> {
    prop::collection::vec(prop_oneof![9 => number(), 1 => Just(bulk(""))], 0..24).boxed()
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => (0_i64..3).prop_map(Value::Int),
        1 => any::<i64>().prop_map(Value::Int),
        5 => (0_u64..3).prop_map(|number| bulk(&number.to_string())),
        1 => any::<u64>().prop_map(|number| bulk(&number.to_string())),
    ]
}

fn item() -> impl Strategy<Value = Value> {
    let bytes = prop::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        4 => number(),
        1 => Just(Value::Nil),
        1 => Just(bulk("")),
        1 => bytes.prop_map(Value::Bulk),
        1 => "\\PC{0,12}".prop_map(Value::Status),
        1 => "[A-Z]{0,4} [a-z {:]{0,12}".prop_map(|text| bulk(&text)),
        1 => prop::collection::vec(any::<i64>().prop_map(Value::Int), 0..3)
            .prop_map(Value::Array),
    ]
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Number of replies. Few of them pass a whole decoder, and of this many, dozens do.
const CASES: u32 = 1024;
