//! Locks in the layouts of other libraries.

mod cancel;
mod redisson;
mod set_nx;

use redlatch::runtime::{Command, Reply};
use redlatch_tests::backend::Backend;

/// Executes a command of another library on the embedded server.
fn other(backend: &Backend, words: &[&str]) -> Reply {
    let (name, args) = words.split_first().unwrap();
    let command = args.iter().fold(Command::new(name), Command::arg);
    backend.embedded_server().execute(&command)
}
