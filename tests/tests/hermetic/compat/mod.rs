//! Locks in the layouts of other libraries.

mod cancel;
mod message;
mod redisson;
mod set_nx;

use redlatch::{
    Client,
    runtime::{Command, Reply},
};
use redlatch_tests::backend::Backend;

/// Executes a command of another library on the embedded server.
fn other(backend: &Backend, words: &[&str]) -> Reply {
    let (name, args) = words.split_first().unwrap();
    let command = args.iter().fold(Command::new(name), Command::arg);
    backend.embedded_server().execute(&command)
}

/// Checks that the tables of `client` have `held` holds and nothing else once its releases are
/// answered.
async fn assert_tables_empty_but(client: &Client, held: usize) {
    client.settled().await;
    let tables = client.tables();
    assert_eq!(
        (tables.holds, tables.pending_releases),
        (held, 0),
        "{tables:?}"
    );
}
