//! Many permits.

use std::time::Duration;

use redlatch_tests::backend::Backend;

behaviours! {
    Single:
        a_hundred_thousand_permits_expire_and_are_taken_back_in_small_steps;
}

// L34
async fn a_hundred_thousand_permits_expire_and_are_taken_back_in_small_steps(backend: &Backend) {
    const ALL: u32 = 100_000;
    let client = backend.client().await;
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(ALL);
    let lease = Duration::from_secs(30);
    for _ in 0..ALL / 1_000 {
        permits.acquire_many(1_000).lease(lease).await.unwrap();
    }
    let totals = permits.totals().await.unwrap();
    assert_eq!((totals.available, totals.acquired), (0, ALL));
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
    assert_eq!((totals.available, totals.acquired), (ALL - 1, 1));
    permits.release(&one).await.unwrap();
    #[cfg(unix)]
    if let Backend::Real(server) = backend {
        let entries = server.command(&["SLOWLOG", "GET", "-1"]).array();
        let longest = entries
            .into_iter()
            .map(|entry| entry.array().remove(2).int());
        let longest = longest.max().unwrap();
        println!("{ALL} expired permits: the longest script took {longest} µs");
    }
}
