//! Real servers, and the models that follow them.

use redlatch_embedded::engine::Model;
use redlatch_tests::server::{Server, ServerBinary, ServerKind, ServerOptions, Version};

/// Starts a server that keeps hashes in order of insertion, whatever their size.
pub(crate) fn start(binary: &ServerBinary) -> Server {
    let options = ServerOptions::new()
        .config("hash-max-ziplist-entries 100000")
        .config("hash-max-ziplist-value 100000");
    Server::start(binary, options)
}

/// Returns the model of a server, and whether the server is the very version that the model's texts
/// come from.
pub(crate) fn model(binary: &ServerBinary) -> (Model, bool) {
    match (binary.kind, binary.version) {
        (ServerKind::Redis, Version(6, 2, _)) => (Model::Redis6_2, true),
        (ServerKind::Redis, Version(7, 0, _)) => (Model::Redis7_0, true),
        (ServerKind::Redis, _) => (Model::Redis7_0, false),
        (ServerKind::Valkey, Version(9, 1, _)) => (Model::Valkey9_1, true),
        _ => (Model::Valkey9_1, false),
    }
}
