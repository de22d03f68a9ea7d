//! A latch that the server has forgotten.

use redlatch::ErrorKind;
use redlatch_behaviours::latch::{counting_and_waiting, set_and_count};
use redlatch_tests::{
    backend::Backend,
    server::ServerBinary,
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(waiter_of_a_flushed_latch_is_told_that_it_is_deleted_by_a_server);

async fn waiter_of_a_flushed_latch_is_told_that_it_is_deleted_by_a_server(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let (client, other) = (backend.client().await, backend.client().await);
    for round in 0..3 {
        let latch = client.count_down_latch("x");
        assert!(latch.try_set_count(4).await.unwrap());
        let waiter = counting_and_waiting(latch);
        eventually("the waiter to count", GENEROUS, async || {
            other.count_down_latch("x").count().await.unwrap() == 3
        })
        .await;
        backend.command(&["FLUSHALL"]);
        set_and_count(&other).await;
        let told = waiter.await.unwrap().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Deleted, "round {round}");
        assert!(other.count_down_latch("x").delete().await.unwrap());
    }
}
