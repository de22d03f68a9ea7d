#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redlatch_core::fuzzing::messages(bytes));
