//! Permits and a server that loses replies.

use std::time::Duration;

use redlatch::{ErrorKind, permits::PermitRelease};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::POOL;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    copies::Copies,
};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn late_copies_of_a_drain_drain_nothing_more() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(200);
    let taken = permits.acquire_many(150).lease(1_000 * MS).await.unwrap();
    backend.pass(2_000 * MS).await;
    let copies = Copies::of_script(backend.embedded_server(), POOL.change.text);
    assert_eq!(permits.drain_permits().await.unwrap(), 200);
    assert_eq!(permits.add_permits(5).await.unwrap(), 5);
    let answers = copies.deliver();
    assert_eq!(answers.len(), 4, "{} had ended: {answers:?}", taken.len());
    assert_eq!(permits.permits().await.unwrap(), 5);
}

/// The request that was sent again may come once more after the permits were given back, elsewhere:
/// the ids tell.
#[tokio::test(start_paused = true)]
async fn late_copies_of_an_acquisition_take_nothing_once_an_id_is_given_back() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
        let copies = Copies::of_script(server, POOL.acquire.text);
        server.drop_reply(calls::of_script(POOL.acquire.text), how);
        let ids = permits.acquire_many(3).await.unwrap();
        assert_eq!(permits.totals().await.unwrap().acquired, 3);
        let other = backend.client().await;
        let elsewhere = other.permit_expirable_semaphore("x");
        let ids: Vec<_> = ids
            .iter()
            .map(|id| id.to_string().parse().unwrap())
            .collect();
        let results = elsewhere.release_all(&ids).await.unwrap();
        assert_eq!(results, [PermitRelease::Released; 3]);
        copies.deliver();
        assert_eq!(permits.totals().await.unwrap().acquired, 0, "no ghosts");
        assert_tables_empty(&client).await;
    }
}

/// Nobody gives such an id back, so the client that took it stops the copies.
#[tokio::test(start_paused = true)]
async fn late_copies_of_an_acquisition_take_nothing_once_an_id_is_left_to_its_lease() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
        let copies = Copies::of_script(server, POOL.acquire.text);
        server.drop_reply(calls::of_script(POOL.acquire.text), how);
        let ids = permits.acquire_many(3).lease(100 * MS).await.unwrap();
        client.settled().await;
        let held = permits.totals().await.unwrap().acquired;
        assert_eq!(held, 3, "stopping copies takes nothing back of {ids:?}");
        backend.pass(200 * MS).await;
        let answers = copies.deliver();
        assert!(
            !answers.is_empty() && answers.iter().all(|answer| answer == "void"),
            "{answers:?}"
        );
        assert_eq!(permits.totals().await.unwrap().acquired, 0, "no ghosts");
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn release_with_a_lost_reply_is_repeated_and_reports_what_is_known() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
        let ids = permits.acquire_many(2).await.unwrap();
        server.drop_reply(calls::of_script(POOL.release.text), how);
        let result = permits.release(&ids[0]).await.unwrap();
        assert_eq!(result, PermitRelease::Unconfirmed);
        server.drop_reply(calls::of_script(POOL.renew.text), how);
        permits
            .extend(&ids[1], Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!(permits.totals().await.unwrap().acquired, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_acquisition_is_undone() {
    let backend = Backend::embedded();
    backend.preload();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(400);
    let copies = Copies::of_script(server, POOL.acquire.text);
    server.drop_reply(calls::of_script(POOL.acquire.text), LostReply::Hangs);
    let error = permits
        .try_acquire_many_for(300, 50 * MS)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    client.settled().await;
    assert_eq!(copies.deliver(), ["void"]);
    assert_eq!(permits.available_permits().await.unwrap(), 400);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_server_takes_back_and_extends_but_gives_nothing_out() {
    let backend = Backend::embedded();
    backend.preload();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
    let semaphore = client.semaphore("y").permits_if_unset(4);
    let ids = permits.acquire_many(2).await.unwrap();
    let mut guard = semaphore.acquire_many(3).await.unwrap();
    server.set_full(true);
    let full = ErrorKind::ServerFull;
    assert_eq!(permits.acquire().await.unwrap_err().kind(), full);
    assert_eq!(semaphore.acquire().await.unwrap_err().kind(), full);
    assert_eq!(semaphore.set_permits(9).await.unwrap_err().kind(), full);
    permits
        .extend(&ids[0], Duration::from_secs(60))
        .await
        .unwrap();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    guard.split(1).unwrap().forget().await.unwrap();
    assert!(guard.split(1).unwrap().release().await.unwrap().is_clean());
    assert!(guard.release().await.unwrap().is_clean());
    assert_eq!(permits.release_all(&ids).await.unwrap().len(), 2);
    assert_eq!(semaphore.totals().await.unwrap().permits, 3);
    server.set_full(false);
    assert_eq!(semaphore.available_permits().await.unwrap(), 3);
    assert_eq!(permits.available_permits().await.unwrap(), 4);
    assert_tables_empty(&client).await;
}
