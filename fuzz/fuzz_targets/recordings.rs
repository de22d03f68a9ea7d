//! What `redlatch timeline` and the soak read back.

#![no_main]

#[path = "../../tests/histories/record.rs"]
mod record;
#[path = "../../crates/redlatch-cli/src/app/verbs/timeline/recording.rs"]
mod recording;

use libfuzzer_sys::fuzz_target;
use record::Record;

/// The version of the lines, as `redlatch ls --watch` writes them.
const VERSION: u32 = 1;

fuzz_target!(|bytes: &[u8]| {
    recording::law(bytes);
    let text = str::from_utf8(bytes).unwrap_or_default();
    for record in text.lines().flat_map(Record::read) {
        let line = record.line().expect("a line");
        assert_eq!(Record::read(&line), Ok(record));
    }
});
