//! A fair lock on a server that is out of memory: it takes nothing new, and lets go of everything.

use redlatch_behaviours::fair::full::a_full_server_lets_go_of_everything;
use redlatch_tests::backend::Backend;

#[tokio::test(start_paused = true)]
async fn full_server_lets_go_of_everything() {
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    a_full_server_lets_go_of_everything(&backend, |full| server.set_full(full)).await;
}
