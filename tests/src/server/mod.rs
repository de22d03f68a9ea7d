//! Starts, disturbs and inspects real servers from outside the library.
//!
//! Every server is a child process on 127.0.0.1, with its own process group and directory. It ends
//! when its [`Server`] value is dropped. If the test process dies first, a small watchdog process
//! ends the server. Signals go to the server's own pid, never to a name.
//!
//! ```no_run
//! use redlatch_tests::server::{Server, ServerBinary, ServerOptions};
//!
//! for binary in ServerBinary::all() {
//!     let server = Server::start(&binary, ServerOptions::new().append_only());
//!     server.command(&["SET", "key", "value"]).unwrap();
//!     server.kill();
//!     server.restart();
//!     assert_eq!(server.keys(), ["key"]);
//! }
//! ```

mod admin;
mod binary;
mod bus;
mod clock;
mod cluster;
mod options;
mod process;
mod replicated;
mod resp;
mod running;
mod sentinel;
mod tls;

pub use admin::ClientType;
pub use binary::{ServerBinary, ServerKind, Version};
pub use cluster::{Cluster, ClusterOptions};
pub use options::ServerOptions;
pub use replicated::Replicated;
pub use resp::Connection;
pub use running::Server;
pub use sentinel::SentinelGroup;
pub use tls::Certificates;

pub use crate::resp::Reply;

/// Returns the address of a group of servers: the scheme, and their addresses.
fn url_of(scheme: &str, servers: &[Server]) -> String {
    let addresses = servers.iter().map(|server| server.address().to_string());
    format!("{scheme}://{}", addresses.collect::<Vec<_>>().join(","))
}
