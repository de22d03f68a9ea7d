//! Permits and a server that loses replies.

use redlatch::permits::PermitRelease;
use redlatch_behaviours::prelude::*;
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::POOL;
use redlatch_tests::copies::Copies;

/// The request that was sent again may come once more after the permits were given back, elsewhere:
/// the ids tell.
#[tokio::test(start_paused = true)]
async fn late_copies_of_an_acquisition_take_nothing_once_an_id_is_given_back() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let (backend, [client]) = preloaded().await;
        let server = backend.embedded_server();
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
        let (backend, [client]) = preloaded().await;
        let server = backend.embedded_server();
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
        let (backend, [client]) = preloaded().await;
        let server = backend.embedded_server();
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
