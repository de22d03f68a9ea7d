//! Every future of the latch may be dropped at every await: poll it k times, drop it, look what is
//! left (L2).

use redlatch::{Client, CountDownLatch};
use redlatch_behaviours::prelude::*;

use super::set_latch;
use crate::cancel::{Task, polled, task};

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop `client` has nothing, nobody is subscribed, and a latch of 3 has been counted down at most
/// once by what was dropped.
async fn dropped_at_every_await(make: impl AsyncFn(&Backend, &Client, CountDownLatch) -> (Task,)) {
    for polls in 1.. {
        let (backend, client, latch) = set_latch(3).await;
        let (task,) = make(&backend, &client, latch.clone()).await;
        let done = polled(&backend, task, polls).await.is_some();
        assert_tables_empty(&client).await;
        backend.pass(10 * MS).await;
        assert_tables_empty(&client).await;
        assert_eq!(backend.subscribers("redlatch:{x}:b"), 0);
        backend.pass(Duration::from_secs(40)).await;
        let keys = backend.keys();
        assert!(keys.iter().all(|key| key == "redlatch:{x}"), "{keys:?}");
        let left = latch.info().await.unwrap().map(|info| info.count);
        assert!(left.is_none_or(|left| left <= 3), "{left:?}");
        if done {
            assert!(polls > 1);
            return;
        }
    }
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_bounded_wait_leaves_nothing() {
    dropped_at_every_await(async |_: &Backend, _: &Client, latch| {
        (task(async move { latch.wait_for(30 * MS).await.unwrap() }),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_that_ends_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, _: &Client, latch| {
        let other = backend.client().await.count_down_latch("x");
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            other.count_down(3).await.unwrap();
        });
        (task(async move { latch.wait().await.unwrap() }),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_before_the_subscription_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, _: &Client, _| {
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let latch = client.count_down_latch("x");
        (task(async move { latch.wait_for(30 * MS).await.unwrap() }),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_waits_of_one_latch_leave_nothing() {
    dropped_at_every_await(async |backend: &Backend, _: &Client, latch| {
        let other = backend.client().await.count_down_latch("x");
        tokio::spawn(async move {
            tokio::time::sleep(8 * MS).await;
            other.count_down(3).await.unwrap();
        });
        (task(async move {
            let waits = (1..6).map(|i| latch.wait_for(i * 4 * MS).into_future());
            futures_util::future::join_all(waits).await;
        }),)
    })
    .await;
}

/// One waits on while others of the same client are dropped, also in the middle of the look that
/// all of them share.
#[tokio::test(start_paused = true)]
async fn cancelled_waits_leave_the_others_waiting() {
    for polls in 1..30 {
        let (backend, [client]) = embedded().await;
        let latch = client.count_down_latch("x");
        latch.try_set_count(1).await.unwrap();
        let mut dropped = Box::pin(latch.wait().into_future());
        assert!(futures_util::poll!(dropped.as_mut()).is_pending());
        let stays = redlatch_behaviours::latch::waiting(latch.clone());
        for _ in 0..polls {
            assert!(futures_util::poll!(dropped.as_mut()).is_pending());
            backend.pass(MS / 4).await;
        }
        drop(dropped);
        backend.pass(20 * MS).await;
        let start = Instant::now();
        latch.count_down(1).await.unwrap();
        stays.await.unwrap().unwrap();
        let took = start.elapsed();
        assert!(took < 10 * MS, "after {polls} polls: {took:?}");
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_count_down_and_wait_counts_once_at_most() {
    dropped_at_every_await(async |backend: &Backend, _: &Client, latch| {
        let other = backend.client().await.count_down_latch("x");
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            other.count_down(2).await.unwrap();
        });
        (task(
            async move { latch.count_down_and_wait(1).await.unwrap() },
        ),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_count_down_counts_once_at_most() {
    dropped_at_every_await(async |_: &Backend, _: &Client, latch| {
        (task(async move { latch.count_down(1).await.unwrap() }),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_count_down_with_a_lost_reply_counts_once_at_most() {
    dropped_at_every_await(async |backend: &Backend, _: &Client, latch| {
        let is_it = redlatch_embedded::calls::of_script(redlatch_lua::LATCH.count_down.text);
        backend
            .embedded_server()
            .drop_reply(is_it, redlatch_embedded::LostReply::Cuts);
        (task(async move { latch.count_down(1).await.unwrap() }),)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_set_info_and_delete_take_effect_once_at_most() {
    dropped_at_every_await(async |_: &Backend, _: &Client, latch| {
        (task(async move {
            let _ = latch.try_set_count(7).await.unwrap();
            let _ = latch.info().await.unwrap();
            let _ = latch.count().await.unwrap();
            let _ = latch.delete().await.unwrap();
        }),)
    })
    .await;
}
