//! Requests to the embedded server, in any portions, and as the client writes them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlatch_core::fuzzing::encode;
use redlatch_embedded::fuzzing::requests;

fuzz_target!(|bytes: &[u8]| {
    let whole = requests([bytes]);
    for length in [1, 2, 7] {
        assert_eq!(requests(bytes.chunks(length)), whole);
    }
    let wire: Vec<_> = whole.0.iter().flat_map(encode).collect();
    assert_eq!(requests([&*wire]), (whole.0, false));
});
