//! Names, keys, and ids of permits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlatch_permits::PermitId;

fuzz_target!(|bytes: &[u8]| {
    redlatch_core::fuzzing::names(bytes);
    let text = str::from_utf8(bytes).unwrap_or_default();
    if let Ok(id) = text.parse::<PermitId>() {
        assert_eq!(id.to_string(), text);
    }
});
