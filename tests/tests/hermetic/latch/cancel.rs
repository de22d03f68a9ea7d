//! Every future of the latch may be dropped at every await: poll it k times, drop it, look what is
//! left (L2).

use redlatch::CountDownLatch;
use redlatch_behaviours::latch::{shut, waiting};
use redlatch_lua::LATCH;

use super::set_latch;
use crate::prelude::*;

/// Counts down on another client after so many ms.
fn later(backend: &Backend, ms: u32, n: u32) {
    let connecting = backend.builder().connect();
    tokio::spawn(async move {
        let latch = connecting.await.unwrap().count_down_latch("x");
        sleep(ms * MS).await;
        latch.count_down(n).await.unwrap();
    });
}

type Call = fn(&Backend, CountDownLatch) -> Task;

/// The calls, each with the least count that it may leave of 3.
const CALLS: [(&str, u32, Call); 8] = [
    ("bounded wait", 3, |_, latch| {
        task(async move { latch.wait_for(30 * MS).await.unwrap() })
    }),
    ("wait that ends", 0, |backend, latch| {
        later(backend, 3, 3);
        task(async move { latch.wait().await.unwrap() })
    }),
    ("wait before the subscription", 3, |backend, _| {
        let connecting = backend.builder().self_check(false).connect();
        task(async move {
            let latch = connecting.await.unwrap().count_down_latch("x");
            latch.wait_for(30 * MS).await.unwrap();
        })
    }),
    ("waits of one client", 0, |backend, latch| {
        later(backend, 8, 3);
        task(async move {
            let waits = (1..6).map(|i| latch.wait_for(i * 4 * MS).into_future());
            join_all(waits).await;
        })
    }),
    ("count-down and wait", 0, |backend, latch| {
        later(backend, 3, 2);
        task(async move { latch.count_down_and_wait(1).await.unwrap() })
    }),
    ("count-down", 2, |_, latch| {
        task(async move { latch.count_down(1).await.unwrap() })
    }),
    ("count-down with a lost reply", 2, |backend, latch| {
        lose_reply(backend, LATCH.count_down.text, LostReply::Cuts);
        task(async move { latch.count_down(1).await.unwrap() })
    }),
    ("set, looks and deletion", 0, |_, latch| {
        task(async move {
            let _ = latch.try_set_count(7).await.unwrap();
            let _ = latch.info().await.unwrap();
            let _ = latch.count().await.unwrap();
            let _ = latch.delete().await.unwrap();
        })
    }),
];

/// After each drop the client has nothing, nobody is subscribed, and a latch of 3 has been counted
/// down at most once by what was dropped.
// L2
#[tokio::test(start_paused = true)]
async fn cancelled_calls_leave_nothing_and_count_once_at_most() {
    for (what, least, call) in CALLS {
        after_each_poll(async |polls| {
            println!("{what}: {polls} polls");
            let (backend, client, latch) = set_latch(3).await;
            let called = call(&backend, latch.clone());
            let done = polled(&backend, called, polls).await.is_some();
            assert_tables_empty(&client).await;
            backend.pass(10 * MS).await;
            assert_tables_empty(&client).await;
            assert_eq!(backend.subscribers("redlatch:{x}:b"), 0);
            backend.pass(Duration::from_secs(40)).await;
            let keys = backend.keys();
            assert!(keys.iter().all(|key| key == "redlatch:{x}"), "{keys:?}");
            if let Some(info) = latch.info().await.unwrap() {
                assert!((least..=3).contains(&info.count), "{what}: {info:?}");
            }
            done
        })
        .await;
    }
}

/// One waits on while others of the same client are dropped, also in the middle of the look that
/// all of them share.
#[tokio::test(start_paused = true)]
async fn cancelled_waits_leave_the_others_waiting() {
    for polls in 1..30 {
        let (backend, [client]) = embedded().await;
        let latch = shut(&client, 1).await;
        let mut dropped = Box::pin(latch.wait().into_future());
        assert!(futures_util::poll!(dropped.as_mut()).is_pending());
        let stays = waiting(latch.clone());
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
