//! Locks in the layouts of other libraries.

mod both;
mod message;
mod redisson;
mod set_nx;

use redlatch::runtime::{Command, Reply};

use crate::prelude::*;

/// A thread of a Java process.
const JAVA: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";

/// Takes `x` as Redisson does.
fn java_holds(backend: &Backend, lease: &str) {
    other(backend, &["HINCRBY", "x", JAVA, "1"]).unwrap();
    other(backend, &["PEXPIRE", "x", lease]).unwrap();
}

/// Executes a command of another library on the embedded server.
fn other(backend: &Backend, words: &[&str]) -> Reply {
    let (name, args) = words.split_first().unwrap();
    let command = args.iter().fold(Command::new(name), Command::arg);
    backend.embedded_server().execute(&command)
}
