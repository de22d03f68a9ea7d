//! The end of a client: by `close`, and by itself when the last handle has gone.

use futures_util::poll;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn cancelled_and_repeated_close_releases_every_hold() {
    // Once with every number of polls before the first call is dropped, and once undisturbed.
    for polls in (0..40).chain([usize::MAX]) {
        let (backend, [client, other]) = embedded().await;
        let mut guards = Vec::new();
        for i in 0..5 {
            let lock = client.lock(format!("n{i}"));
            let outer = lock.lock().await.unwrap();
            guards.push(lock.lock().owner(outer.owner()).await.unwrap());
            guards.push(outer);
        }
        {
            let mut first = Box::pin(client.close_now());
            for _ in 0..polls {
                if poll!(first.as_mut()).is_ready() {
                    break;
                }
                backend.pass(MS / 2).await;
            }
        }
        client.close_now().await;
        client.clone().close(SECOND).await;
        for i in 0..5 {
            let lock = other.lock(format!("n{i}"));
            let is_locked = lock.is_locked().await.unwrap();
            assert!(!is_locked, "n{i} after {polls} polls");
        }
        assert!(guards.iter().all(|guard| guard.check().is_err()));
        drop(guards);
        backend.assert_only_counters_left();
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_close_still_ends_holds_after_its_grace() {
    let (_backend, [client, other]) = embedded().await;
    let guard = client.lock("x").lock().await.unwrap();
    let closing = timeout(SECOND, client.close(60 * SECOND)).await;
    assert!(closing.is_err(), "it waits for the guard");
    assert_eq!(guard.lost().await, LossCause::Closed);
    // The client keeps the name while the guard winds up.
    assert!(other.lock("x").is_locked().await.unwrap());
    let start = Instant::now();
    client.close_now().await;
    assert!(start.elapsed() <= 2 * SECOND);
    assert!(!other.lock("x").is_locked().await.unwrap());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn acquisition_in_flight_ends_with_its_client_and_leaves_nothing() {
    for stopped_for in [1, 300, 900, 1_500, 4_000, 4_990, 7_000, 9_900, 15_000] {
        for delivered in [false, true] {
            let (backend, [client, other]) = embedded().await;
            let guard = match delivered {
                true => Some(client.lock("y").lock().await.unwrap()),
                false => None,
            };
            // The script is there, so that what is in flight is what acts.
            drop(other.lock("z").lock().await.unwrap());
            other.settled().await;
            let server = backend.embedded_server();
            server.stop();
            let lock = client.lock("x");
            let flying = tokio::spawn(lock.lock().into_future());
            backend.pass(MS).await;
            server.stop_for(stopped_for * MS);
            client.close_now().await;
            assert_fails(flying.await.unwrap(), ErrorKind::Closed);
            backend.pass(30 * SECOND).await;
            let case = format!("stopped for {stopped_for} ms, delivered: {delivered}");
            assert!(!other.lock("x").is_locked().await.unwrap(), "{case}");
            let is_free = !other.lock("y").is_locked().await.unwrap();
            assert!(stopped_for > 9_000 || is_free, "{case}");
            drop(guard);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn release_outlasts_an_outage_within_the_lease_of_its_hold() {
    for cut in [false, true] {
        let backend = Backend::embedded();
        let server = backend.embedded_server().clone();
        let client = backend.builder().default_lease(SECOND);
        let client = client.connect().await.unwrap();
        let other = backend.client().await;
        let lock = client.lock("x").lock().lease(3600 * SECOND);
        let guard = lock.await.unwrap();
        if cut {
            server.refuse_connections(true);
            server.cut_connections();
        } else {
            server.stop();
        }
        drop(guard);
        backend.pass(9 * SECOND).await;
        assert_eq!(client.tables().pending_releases, 1);
        server.refuse_connections(false);
        server.resume();
        client.settled().await;
        assert!(!other.lock("x").is_locked().await.unwrap(), "cut: {cut}");
        assert_tables_empty(&client).await;
        backend.assert_only_counters_left();
    }
}

#[tokio::test(start_paused = true)]
async fn released_hold_counts_no_loss() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    // A snapshot of this recorder sets all values to zero.
    let counted = |wanted: [&str; 2]| {
        let all = snapshotter.snapshot().into_vec();
        wanted.map(|name| {
            let of_name = all.iter().filter(|(key, ..)| key.key().name() == name);
            let count = |value: &DebugValue| match value {
                DebugValue::Counter(count) => *count,
                other => panic!("{other:?}"),
            };
            of_name.map(|(.., value)| count(value)).sum::<u64>()
        })
    };
    let names = ["redlatch_acquired_total", "redlatch_lost_total"];
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let guard = lock.lock().renewed_lease(SECOND).await.unwrap();
    let early = tokio::spawn(guard.lost());
    let late = guard.lost();
    backend.pass(300 * MS).await;
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let late = tokio::spawn(late);
    let dropped = lock.lock().lease(200 * MS).await.unwrap();
    let third = tokio::spawn(dropped.lost());
    drop(dropped);
    backend.pass(3600 * SECOND).await;
    for lost in [early, late, third] {
        assert!(!lost.is_finished());
        lost.abort();
    }
    assert_eq!(counted(names), [2, 0]);

    let truly = lock.lock().lease(200 * MS).await.unwrap();
    truly.lost().await;
    drop(truly);
    assert_eq!(counted(names), [1, 1], "told once");
}

#[tokio::test(start_paused = true)]
async fn lost_future_does_not_keep_the_client_alive() {
    let (backend, [client]) = embedded().await;
    let server = backend.embedded_server();
    let guard = client.lock("x").lock().await.unwrap();
    let polled = tokio::spawn(guard.lost());
    let mut idle = Box::pin(guard.lost());
    assert!(poll!(idle.as_mut()).is_pending());
    backend.pass(SECOND).await;
    drop(client);
    backend.pass(SECOND).await;
    let connections = server.connection_count();
    assert_eq!(connections, 2, "a guard keeps its client alive");
    drop(guard);
    backend.pass(2 * SECOND).await;
    assert_eq!(server.connection_count(), 0);
    assert!(!polled.is_finished() && poll!(idle.as_mut()).is_pending());
    backend.assert_only_counters_left();
}
