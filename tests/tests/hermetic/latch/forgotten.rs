//! What a latch does when the server has forgotten it, and what a message about it is worth.

use redlatch_behaviours::latch::{counting_and_waiting, listening, passed, shut, waiting};

use super::{refuse_look, set_latch};
use crate::prelude::*;

/// A latch is set, counted down and waited for; the server is flushed, and the same happens again.
#[tokio::test(start_paused = true)]
async fn waiter_of_a_flushed_latch_is_told_that_it_is_deleted() {
    let (backend, [client, other]) = preloaded().await;
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..1_000 {
        let waiter = counting_and_waiting(shut(&client, 4).await);
        backend.pass(random.u32(2..4_000) * MS).await;
        backend.command(&["FLUSHALL"]);
        let next = shut(&other, 4).await;
        assert_eq!(next.count_down(1).await.unwrap(), 3);
        let told = waiter.await.unwrap().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Deleted, "round {round}");
        assert!(next.delete().await.unwrap());
    }
    assert_tables_empty(&client).await;
}

/// The server loses its last writes, as one does whose replica lags and takes over: it knows an
/// earlier generation, which opened, and not the one that is waited for.
#[tokio::test(start_paused = true)]
async fn waiter_of_a_generation_that_was_lost_is_told_that_it_is_deleted() {
    for set_again in [false, true] {
        let (backend, client, latch) = set_latch(0).await;
        let earlier = backend.embedded_server().snapshot();
        latch.try_set_count(2).await.unwrap();
        let waiter = counting_and_waiting(latch.clone());
        listening(&client, 1).await;
        backend.embedded_server().restore(&earlier);
        if set_again {
            latch.try_set_count(2).await.unwrap();
        }
        let told = waiter.await.unwrap().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Deleted, "set again: {set_again}");
    }
}

/// The latch is gone, and an observer of an election of its name looks.
#[tokio::test(start_paused = true)]
async fn waiter_passes_by_no_look_of_an_observer() {
    let (backend, client, latch) = set_latch(1).await;
    let waiter = waiting(latch);
    listening(&client, 1).await;
    backend.embedded_server().delete_key("redlatch:{x}");
    let mut observer = client.election("x").observe();
    assert_eq!(observer.next().await.unwrap().unwrap(), None);
    let observing = tokio::spawn(async move { observer.next().await });
    assert_fails(waiter.await.unwrap(), ErrorKind::Deleted);
    backend.pass(5 * SECOND).await;
    assert!(!observing.is_finished(), "nobody leads");
    observing.abort();
}

/// The name of an election that nobody leads becomes that of a latch.
#[tokio::test(start_paused = true)]
async fn observer_learns_nothing_by_a_look_of_a_waiter() {
    let (backend, [client, other]) = preloaded().await;
    let mut observer = client.election("x").observe();
    assert_eq!(observer.next().await.unwrap().unwrap(), None);
    let observing = tokio::spawn(async move { observer.next().await });
    listening(&client, 1).await;
    let latch = shut(&other, 1).await;
    let waiter = waiting(client.count_down_latch("x"));
    backend.pass(20 * MS).await;
    latch.count_down(1).await.unwrap();
    waiter.await.unwrap().unwrap();
    assert_fails(observing.await.unwrap().unwrap(), ErrorKind::WrongKind);
}

/// Generations that opened are told apart from those that are unknown, as far back as the record
/// goes.
#[tokio::test(start_paused = true)]
async fn waiter_whose_generation_opened_long_ago_passes() {
    let (backend, [client]) = preloaded().await;
    for opened in [1, 2, 64, 65] {
        let latch = client.count_down_latch(format!("x-{opened}"));
        latch.try_set_count(1).await.unwrap();
        let waiter = waiting(latch.clone());
        backend.pass(50 * MS).await;
        // All messages are lost, so that only the record tells.
        backend.embedded_server().drop_messages(opened);
        latch.count_down(1).await.unwrap();
        for _ in 1..opened {
            latch.try_set_count(1).await.unwrap();
            latch.count_down(1).await.unwrap();
        }
        latch.try_set_count(1).await.unwrap();
        let told = waiter.await.unwrap().map_err(|error| error.kind());
        let fits = match opened {
            ..=64 => Ok(()),
            _ => Err(ErrorKind::Deleted),
        };
        assert_eq!(told, fits, "{opened} generations have opened since");
    }
}

/// Anybody who may publish can say that a latch is open, or that it is gone. That makes each client
/// look once, and nobody passes.
#[tokio::test(start_paused = true)]
async fn forged_message_makes_each_client_look_once() {
    let (backend, clients) = preloaded::<2>().await;
    let latch = shut(&clients[0], 1).await;
    let generation = latch.info().await.unwrap().unwrap().generation;
    let waiters: Vec<_> = (0..200)
        .map(|n| waiting(clients[n % 2].count_down_latch("x")))
        .collect();
    backend.pass(100 * MS).await;
    for message in ["open", "deleted"] {
        let message = format!("{message} {generation}");
        let before = backend.script_calls();
        backend.command(&["PUBLISH", "redlatch:{x}:b", &message]);
        backend.pass(20 * MS).await;
        assert_eq!(backend.script_calls() - before, 2, "{message}");
        assert!(!waiters.iter().any(JoinHandle::is_finished), "{message}");
    }
    let before = backend.script_calls();
    latch.count_down(1).await.unwrap();
    passed(waiters).await;
    assert_eq!(backend.script_calls() - before, 3, "one look per client");
    assert_all_empty(&clients).await;
}

/// The answer to the look that a message causes may be lost like any other.
#[tokio::test(start_paused = true)]
async fn look_after_a_message_is_repeated_if_its_answer_is_lost() {
    let (backend, _client, latch) = set_latch(1).await;
    let waiters: Vec<_> = (0..50).map(|_| waiting(latch.clone())).collect();
    backend.pass(100 * MS).await;
    refuse_look(&backend, "LOADING the server is not ready");
    let start = Instant::now();
    latch.count_down(1).await.unwrap();
    passed(waiters).await;
    assert!(start.elapsed() < 1_000 * MS, "{:?}", start.elapsed());
}
