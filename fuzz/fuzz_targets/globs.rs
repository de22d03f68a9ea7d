//! The patterns of client and embedded server match the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlatch_core::fuzzing::{globs, matched};

fuzz_target!(|bytes: &[u8]| {
    globs(bytes);
    let (pattern, text, is_match) = matched(bytes);
    // The server's pattern is made of bytes.
    if bytes.is_ascii() {
        let server = redlatch_embedded::fuzzing::matches(pattern.as_bytes(), text.as_bytes());
        assert_eq!(server, is_match);
    }
});
