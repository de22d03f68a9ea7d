//! Replies and pushes, in any portions. The client reads what the embedded server writes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlatch_core::{
    fuzzing::{decoded, replies},
    runtime::Value,
};
use redlatch_embedded::fuzzing::written;

fuzz_target!(|bytes: &[u8]| {
    replies(bytes);
    for reply in decoded(bytes) {
        if reply
            .as_ref()
            .map_or_else(|error| is_line(&error.to_string()), is_plain)
        {
            assert_eq!(decoded(&written(&reply)), [reply]);
        }
    }
});

/// Tells whether a value is written as it is: an end of a line becomes a blank, and the first dash
/// of an error belongs to the protocol.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Status(text) => is_line(text),
        Value::Error(error) => is_line(&error.to_string()),
        Value::Array(items) => items.iter().all(is_plain),
        _ => true,
    }
}

fn is_line(text: &str) -> bool {
    !text.starts_with('-') && !text.contains(['\r', '\n'])
}
