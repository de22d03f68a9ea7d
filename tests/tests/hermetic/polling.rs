//! Waiting by asking again and again: no kind opens a connection for messages or subscribes to
//! anything, whichever of its calls waits.

use redlatch::RedLock;
use redlatch_tests::calls::{self, Kind, Wait};

use crate::prelude::*;

/// What commands there are to hear messages.
const LISTENING: [&str; 3] = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"];

const POLL: WaitStrategy = WaitStrategy::Poll(Backoff::exponential(
    Duration::from_millis(5),
    Duration::from_millis(20),
));

/// Lets a call wait for some rounds, and then for what `free` does. A call that has no need to wait
/// proves nothing.
async fn waits<T: Send + 'static>(
    call: impl IntoFuture<Output = T, IntoFuture: Send + 'static>,
    free: impl AsyncFnOnce(),
) -> T {
    let call: JoinHandle<T> = tokio::spawn(call.into_future());
    sleep(100 * MS).await;
    assert!(!call.is_finished(), "it waits");
    free().await;
    call.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn notified_waiter_is_seen_to_subscribe() {
    let backend = Backend::embedded();
    let client = backend.builder().self_check(false).connect().await;
    let lock = client.unwrap().lock("x");
    let held = lock.lock().await.unwrap();
    let free = async || {
        held.release().await.unwrap();
    };
    let guard = waits(lock.lock(), free).await.unwrap();
    assert!(backend.embedded_server().command_count("SUBSCRIBE") > 0);
    assert_eq!(backend.embedded_server().connection_count(), 2);
    guard.release().await.unwrap();
}

/// Each kind's waiting calls, with one client that holds and one that waits. Both poll by their own
/// default, with the self-check on.
#[tokio::test(start_paused = true)]
async fn polling_waiters_of_every_kind_never_subscribe() {
    for kind in calls::KINDS {
        let backends: Vec<_> = (0..kind.servers()).map(|_| Backend::embedded()).collect();
        let connect = async || {
            let clients = backends.iter().map(async |backend| {
                let client = backend.builder().wait_strategy(POLL).connect().await;
                client.unwrap()
            });
            join_all(clients).await
        };
        let (others, polling) = (connect().await, connect().await);
        // The second time it is known that they may have to wait.
        for _ in 0..2 {
            for Wait { what, call, free } in kind.waits(&others, &polling).await {
                let outcome = waits(call, async || free.await.unwrap()).await;
                outcome.unwrap_or_else(|error| panic!("{kind:?}, {what}: {error:?}"));
            }
        }
        assert_all_empty(&polling).await;
        for backend in &backends {
            assert_nobody_listened(backend, *kind);
        }
    }
}

fn assert_nobody_listened(backend: &Backend, kind: &dyn Kind) {
    let server = backend.embedded_server();
    let connections = server.connection_count();
    // For commands and renewals of two clients.
    assert!(connections <= 4, "{kind:?}: {connections}");
    for command in LISTENING {
        assert_eq!(server.command_count(command), 0, "{kind:?}: {command}");
    }
}

/// Which waits by asking again, whatever the strategy.
#[tokio::test(start_paused = true)]
async fn waiter_of_a_red_lock_never_subscribes() {
    for strategy in [WaitStrategy::Notify, POLL] {
        let nodes: Vec<_> = (0..3).map(|_| Backend::embedded()).collect();
        let mut locks = Vec::new();
        for node in nodes.iter().chain(&nodes) {
            let client = node.builder().self_check(false).wait_strategy(strategy);
            locks.push(client.connect().await.unwrap().lock("x"));
        }
        let red = |at: usize| {
            let nodes = locks[at..at + 3].iter().map(|lock| lock as &dyn Lockable);
            let red = RedLock::builder(&nodes.collect::<Vec<_>>());
            red.durable_nodes().build().unwrap()
        };
        let held = red(0).lock().await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let guard = waits(red(3).lock(), free).await.unwrap();
        guard.release().await.unwrap();
        for node in &nodes {
            let server = node.embedded_server();
            // Each client that has held listens to its own channel.
            let listens = u64::from(strategy == WaitStrategy::Notify);
            assert_eq!(server.connection_count(), 2 + 2 * listens as usize);
            for (command, times) in LISTENING.into_iter().zip([2 * listens, 0, 0]) {
                assert_eq!(server.command_count(command), times, "{command}");
            }
        }
    }
}
