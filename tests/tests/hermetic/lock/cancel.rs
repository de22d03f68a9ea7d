//! Every future of the lock may be dropped at every await (L2).

use crate::{
    cancel::{dropped_at_every_await, release},
    prelude::*,
    ways::way,
};

#[tokio::test(start_paused = true)]
async fn cancelled_lock_behind_a_waiter_of_the_same_client_leaves_nothing() {
    dropped_at_every_await(way("lock"), async |_: &Backend, client: &Client| {
        let guard = client.lock("x").lock().await.unwrap();
        let mut first = Box::pin(client.lock("x").try_lock_for(20 * MS).into_future());
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        let lock = client.lock("x");
        let both = task(async move {
            let second = lock.try_lock_for(40 * MS);
            let (first, second) = futures_util::join!(first, second.into_future());
            drop((first.unwrap(), second.unwrap()));
        });
        (both, Some(release(guard)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_re_entry_undoes_only_its_own_attempt() {
    for polls in 1..12 {
        let (backend, [client]) = embedded().await;
        let lock = client.lock("x");
        let outer = lock.lock().await.unwrap();
        let inner = lock.lock().owner(outer.owner()).into_future();
        polled(&backend, inner, polls).await;
        client.settled().await;
        let count = lock.hold_count(outer.owner()).await.unwrap();
        assert_eq!(count, 1, "after {polls} polls");
        outer.check().unwrap();
        outer.release().await.unwrap();
        backend.assert_only_counters_left();
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_inspection_and_forced_release_leave_nothing() {
    dropped_at_every_await(way("lock"), async |_: &Backend, client: &Client| {
        let lock = client.lock("x");
        let client = client.clone();
        let guard = lock.lock().await.unwrap();
        let all = task(async move {
            lock.info().await.unwrap();
            lock.holders().await.unwrap();
            client.locks("*").next().await.unwrap().unwrap();
            lock.force_release().await.unwrap();
        });
        (all, Some(release(guard)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_connect_and_close_leave_nothing() {
    for polls in 1..=61 {
        let backend = Backend::embedded();
        let connecting = Box::pin(backend.builder().connect());
        let client = polled(&backend, connecting, polls).await;
        if let Some(client) = client {
            let client = client.unwrap();
            let _guard = client.lock("x").lock().await.unwrap();
            client.close_now().await;
            client.close_now().await;
        }
        backend.pass(Duration::from_secs(5)).await;
        let connections = backend.embedded_server().connection_count();
        assert_eq!(connections, 0, "after {polls} polls");
    }
}
