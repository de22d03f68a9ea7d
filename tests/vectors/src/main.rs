//! Writes the recorded vectors to the folder `vectors`.

// Vectors are test data: what cannot be made or read ends the run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;

fn main() {
    let folder = redlatch_vectors::folder();
    fs::create_dir_all(&folder).expect("a folder");
    let recorded = redlatch_vectors::recorded();
    for name in redlatch_vectors::texts(&folder).keys() {
        if !recorded.contains_key(name) {
            fs::remove_file(folder.join(name)).expect("a file that can be removed");
        }
    }
    for (name, text) in recorded {
        let calls = text.matches("{\"script\":").count();
        println!("vectors/{name}: {calls} calls");
        fs::write(folder.join(name), text).expect("a file that can be written");
    }
}
