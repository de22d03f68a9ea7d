//! Real servers that are out of memory.

use redlatch_behaviours::fair::full::a_full_server_lets_go_of_everything;
use redlatch_tests::{backend::Backend, server::ServerBinary};

redlatch_tests::on_every_server!(full_server_lets_go_of_everything);

async fn full_server_lets_go_of_everything(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let fill = |full| {
        let limit = if full { "1" } else { "0" };
        backend.server().config_set("maxmemory", limit);
    };
    a_full_server_lets_go_of_everything(&backend, fill).await;
}
