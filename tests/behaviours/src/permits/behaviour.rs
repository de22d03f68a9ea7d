//! What permits with an id do.

use redlatch::{
    PermitExpirableSemaphore, PermitId,
    permits::PermitRelease::{Expired, Released, Unknown},
};
use redlatch_tests::wait::by_night;

use crate::prelude::*;

behaviours! {
    Cluster:
        an_id_is_extended_looked_at_and_given_back_from_another_process,
        holders_are_listed_by_id;
    Single:
        release_of_several_ids_reports_each,
        nothing_renews_a_permit,
        several_permits_are_given_out_together,
        unknown_ids_change_nothing,
        shortest_and_longest_leases_work,
        ttl_of_a_semaphore_bounds_its_permits,
        a_hundred_thousand_permits_expire_and_are_taken_back_in_small_steps;
}

/// How long the permit lasts.
async fn left(permits: &PermitExpirableSemaphore, id: &PermitId) -> Duration {
    permits.remaining(id).await.unwrap().unwrap()
}

/// Returns how many permits there are, are available, and are out.
async fn numbers(permits: &PermitExpirableSemaphore) -> (u32, u32, u32) {
    let totals = permits.totals().await.unwrap();
    (totals.permits, totals.available, totals.acquired)
}

async fn an_id_is_extended_looked_at_and_given_back_from_another_process(two: [Client; 2]) {
    let [taker, worker] = two;
    let permits = taker.permit_expirable_semaphore("x").permits_if_unset(2);
    let id = permits.acquire().lease(5 * SECOND).await.unwrap();
    let text = id.to_string();
    taker.close_now().await;

    let permits = worker.permit_expirable_semaphore("x");
    let id: PermitId = text.parse().unwrap();
    let before = left(&permits, &id).await;
    assert!(before <= 5 * SECOND && before > SECOND, "{before:?}");
    // Never shorter.
    for span in [60 * SECOND, SECOND] {
        permits.extend(&id, span).await.unwrap();
        assert!(left(&permits, &id).await > 50 * SECOND);
    }
    assert_eq!(numbers(&permits).await, (2, 1, 1));
    assert_eq!(permits.release(&id).await.unwrap(), Released);
    assert_eq!(permits.release(&id).await.unwrap(), Unknown);
    assert_eq!(permits.remaining(&id).await.unwrap(), None);
    let error = permits.extend(&id, SECOND).await.unwrap_err();
    assert_eq!(error.loss(), Some(LossCause::Forgotten));
    assert_eq!(permits.available_permits().await.unwrap(), 2);
}

// L33
async fn release_of_several_ids_reports_each(backend: &Backend, client: Client) {
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(10);
    let short = permits.acquire_many(2).lease(100 * MS).await.unwrap();
    let long = permits.acquire_many(3).lease(60 * SECOND).await.unwrap();
    assert_eq!((short.len(), long.len()), (2, 3));
    permits.release(&long[1]).await.unwrap();
    backend.pass_lease(100 * MS).await;
    let ids = [&long[0], &short[0], &long[1], &long[2], &long[2], &short[1]];
    let results = permits.release_all(&ids.map(Clone::clone)).await.unwrap();
    let expected = [Released, Expired, Unknown, Released, Unknown, Expired];
    assert_eq!(results, expected);
    assert_eq!(permits.available_permits().await.unwrap(), 10);
    assert!(permits.release_all(&[]).await.unwrap().is_empty());
}

async fn nothing_renews_a_permit(client: Client) {
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(1);
    let id = permits.acquire().lease(SECOND).await.unwrap();
    assert_eq!(client.tables().renewals, 0);
    assert_tables_empty(&client).await;
    let next = permits.acquire().lease(SECOND).await.unwrap();
    assert_ne!(next, id);
    assert_eq!(permits.remaining(&id).await.unwrap(), None);
    assert_ne!(permits.release(&id).await.unwrap(), Released);
    // The next one is untouched.
    assert!(permits.try_acquire().await.unwrap().is_none());
    assert_eq!(permits.release(&next).await.unwrap(), Released);
}

/// Changes of the number are those of the semaphore, whose behaviours show them.
async fn several_permits_are_given_out_together(backend: &Backend, client: Client) {
    let permits = client.permit_expirable_semaphore("x");
    assert_fails(permits.acquire().await, ErrorKind::NotSet);
    assert!(permits.try_set_permits(4).await.unwrap());
    let ids = permits.acquire_many(3).await.unwrap();
    assert_eq!(numbers(&permits).await, (4, 1, 3));
    assert!(permits.try_acquire_many(2).await.unwrap().is_none());
    assert_fails(permits.acquire_many(5).await, ErrorKind::OutOfRange);
    for wait in [Duration::ZERO, MS, 100 * MS] {
        assert_busy(backend, permits.try_acquire_many_for(2, wait).await);
    }
    permits.release_all(&ids).await.unwrap();
    assert_eq!(permits.available_permits().await.unwrap(), 4);
    assert!(permits.delete().await.unwrap());
    assert_fails(permits.totals().await, ErrorKind::NotSet);
}

async fn unknown_ids_change_nothing(client: Client) {
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(2);
    let id = permits.acquire().lease(60 * SECOND).await.unwrap();
    let others = client.permit_expirable_semaphore("y").permits_if_unset(2);
    others.acquire().await.unwrap();
    let stranger: PermitId = "0123456789abcdef0123456789abcdef:1:0".parse().unwrap();
    let marked = format!("{stranger}:9999999999999").parse().unwrap();
    for (semaphore, id) in [(&permits, &stranger), (&permits, &marked), (&others, &id)] {
        assert_eq!(semaphore.release(id).await.unwrap(), Unknown);
        assert_eq!(semaphore.remaining(id).await.unwrap(), None);
        let extended = semaphore.extend(id, SECOND).await;
        assert_fails(extended, ErrorKind::Lost(LossCause::Forgotten));
        assert_eq!(semaphore.available_permits().await.unwrap(), 1);
    }
    assert_eq!(permits.release(&id).await.unwrap(), Released);
    drop(client.lock("z").lock().await.unwrap());
    let lock = client.permit_expirable_semaphore("z");
    assert_fails(lock.remaining(&id).await, ErrorKind::WrongKind);
    assert_fails(lock.totals().await, ErrorKind::WrongKind);
    assert_eq!(lock.release(&id).await.unwrap(), Unknown);
}

async fn shortest_and_longest_leases_work(backend: &Backend, client: Client) {
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(2);
    let year = Duration::from_secs(365 * 86_400);
    let long = permits.acquire().lease(year).await.unwrap();
    assert!(left(&permits, &long).await > year / 2);
    permits.acquire().lease(50 * MS).await.unwrap();
    backend.pass_lease(50 * MS).await;
    assert_eq!(permits.available_permits().await.unwrap(), 1);
    permits.extend(&long, 50 * MS).await.unwrap();
    assert_eq!(permits.release(&long).await.unwrap(), Released);
}

async fn holders_are_listed_by_id(client: Client) {
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(400);
    let mut ids = permits.acquire_many(300).lease(60 * SECOND).await.unwrap();
    let holders = permits.holders().await.unwrap();
    let mut listed: Vec<_> = holders.iter().map(|holder| holder.id.clone()).collect();
    listed.sort();
    ids.sort();
    assert_eq!(listed, ids, "more than one page of them");
    let metadata = holders[0].metadata.as_ref().unwrap();
    assert_eq!(metadata.pid, std::process::id());
    let results = permits.release_all(&listed).await.unwrap();
    assert!(results.iter().all(|result| *result == Released));
    assert_eq!(permits.available_permits().await.unwrap(), 400);
}

// L36
async fn ttl_of_a_semaphore_bounds_its_permits(backend: &Backend, client: Client) {
    let permits = client.permit_expirable_semaphore("x");
    permits.set_permits(3).ttl(2 * SECOND).await.unwrap();
    let id = permits.acquire().lease(60 * SECOND).await.unwrap();
    assert!(left(&permits, &id).await <= 2 * SECOND);
    let extended = permits.extend(&id, 60 * SECOND).await;
    assert_fails(extended, ErrorKind::OutOfRange);
    backend.pass(3 * SECOND).await;
    assert_eq!(permits.remaining(&id).await.unwrap(), None);
    assert_fails(permits.acquire().await, ErrorKind::NotSet);
    assert!(backend.keys().is_empty() || !backend.keys()[0].ends_with(":d"));
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
    assert_eq!(numbers(&permits).await, (all, 0, all));
    backend.pass_lease(lease).await;
    if let Backend::Real(server) = backend {
        server.command(&["CONFIG", "RESETSTAT"]);
        server.command(&["SLOWLOG", "RESET"]);
        server.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        server.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    }
    let one = permits.acquire().await.unwrap();
    assert_eq!(numbers(&permits).await, (all, all - 1, 1));
    permits.release(&one).await.unwrap();
    if let Backend::Real(server) = backend {
        let entries = server.command(&["SLOWLOG", "GET", "-1"]).array();
        let took = entries.into_iter().map(|it| it.array().remove(2).int());
        let longest = took.max().unwrap();
        println!("{all} expired permits: the longest script took {longest} µs");
    }
}
