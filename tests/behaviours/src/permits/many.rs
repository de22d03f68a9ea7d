//! Many permits.

use redlatch_tests::wait::by_night;

use crate::prelude::*;

behaviours! {
    Single:
        a_hundred_thousand_permits_expire_and_are_taken_back_in_small_steps;
}

// L34
async fn a_hundred_thousand_permits_expire_and_are_taken_back_in_small_steps(backend: &Backend) {
    let client = backend.client().await;
    // The lease lasts until all are out.
    let (all, lease) = by_night((10_000, 10), (100_000, 30));
    let lease = Duration::from_secs(lease);
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(all);
    for _ in 0..all / 1_000 {
        permits.acquire_many(1_000).lease(lease).await.unwrap();
    }
    let totals = permits.totals().await.unwrap();
    assert_eq!((totals.available, totals.acquired), (0, all));
    backend.pass_lease(lease).await;
    #[cfg(unix)]
    if let Backend::Real(server) = backend {
        server.command(&["CONFIG", "RESETSTAT"]);
        server.command(&["SLOWLOG", "RESET"]);
        server.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        server.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    }
    let one = permits.acquire().await.unwrap();
    let totals = permits.totals().await.unwrap();
    assert_eq!((totals.available, totals.acquired), (all - 1, 1));
    permits.release(&one).await.unwrap();
    #[cfg(unix)]
    if let Backend::Real(server) = backend {
        let entries = server.command(&["SLOWLOG", "GET", "-1"]).array();
        let longest = entries
            .into_iter()
            .map(|entry| entry.array().remove(2).int());
        let longest = longest.max().unwrap();
        println!("{all} expired permits: the longest script took {longest} µs");
    }
}
