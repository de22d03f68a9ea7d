//! Waiting by asking again and again: no kind opens a connection for messages or subscribes to
//! anything, whichever of its calls waits.

use std::{future::IntoFuture, time::Duration};

use redlatch::{Backoff, Client, Lockable, RedLock, WaitStrategy};
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What commands there are to hear messages.
const LISTENING: [&str; 3] = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"];

const POLL: WaitStrategy = WaitStrategy::Poll(Backoff::exponential(
    Duration::from_millis(5),
    Duration::from_millis(20),
));

/// Runs `wait` with a client that holds and one that waits, both of which poll by their own default
/// and with the self-check on.
async fn assert_never_listens(wait: impl AsyncFn(&Client, &Client)) {
    let backend = Backend::embedded();
    let connect = async || {
        let client = backend.builder().wait_strategy(POLL).connect().await;
        client.unwrap()
    };
    let (other, polling) = (connect().await, connect().await);
    wait(&other, &polling).await;
    assert_tables_empty(&polling).await;
    let server = backend.embedded_server();
    let connections = server.connection_count();
    assert!(
        connections <= 4,
        "commands and renewals of two clients: {connections}"
    );
    for command in LISTENING {
        assert_eq!(server.command_count(command), 0, "{command}");
    }
}

/// Lets a call wait for some rounds, and then for what `free` does. A call that has no need to wait
/// proves nothing.
async fn waits<T: Send + 'static>(
    call: impl IntoFuture<Output = T, IntoFuture: Send + 'static>,
    free: impl AsyncFnOnce(),
) -> T {
    let call: JoinHandle<T> = tokio::spawn(call.into_future());
    tokio::time::sleep(100 * MS).await;
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

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_lock_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let lock = polling.lock("x");
        for _ in 0..2 {
            let held = other.lock("x").lock().await.unwrap();
            let free = async || {
                held.release().await.unwrap();
            };
            let guard = waits(lock.lock(), free).await.unwrap();
            guard.release().await.unwrap();
        }
        let held = other.lock("x").lock().await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let guard = waits(lock.try_lock_for(9 * SECOND), free).await.unwrap();
        guard.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_fair_lock_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let lock = polling.fair_lock("x");
        let held = other.fair_lock("x").lock().await.unwrap();
        // Two of one client: one asks for both.
        let behind = tokio::spawn(lock.lock().into_future());
        let free = async || {
            held.release().await.unwrap();
        };
        let guard = waits(lock.try_lock_for(9 * SECOND), free).await.unwrap();
        drop(guard);
        behind.await.unwrap().unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_read_write_lock_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let (theirs, lock) = (other.read_write_lock("x"), polling.read_write_lock("x"));
        let held = theirs.write().await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let read = waits(lock.read(), free).await.unwrap();
        read.release().await.unwrap();
        let held = theirs.read().await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let write = waits(lock.write(), free).await.unwrap();
        write.release().await.unwrap();
        let held = theirs.upgradable_read().await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let look = waits(lock.upgradable_read(), free).await.unwrap();
        let held = theirs.read().await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let write = waits(look.upgrade(), free).await.unwrap();
        write.downgrade().await.unwrap().release().await.unwrap();
        look.release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_semaphore_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let theirs = other.semaphore("x").permits_if_unset(3);
        let mine = polling.semaphore("x").permits_if_unset(3);
        let held = theirs.acquire_many(2).await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let permits = waits(mine.acquire_many(3), free).await.unwrap();
        permits.release().await.unwrap();
        let held = theirs.acquire_many(3).await.unwrap();
        let free = async || {
            held.release().await.unwrap();
        };
        let permit = waits(mine.try_acquire_for(9 * SECOND), free).await.unwrap();
        permit.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_permit_semaphore_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let theirs = other.permit_expirable_semaphore("x").permits_if_unset(2);
        let mine = polling.permit_expirable_semaphore("x").permits_if_unset(2);
        let held = theirs.acquire_many(2).await.unwrap();
        let free = async || {
            for id in &held {
                theirs.release(id).await.unwrap();
            }
        };
        let ids = waits(mine.acquire_many(2), free).await.unwrap();
        for id in &ids {
            mine.release(id).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_latch_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let (theirs, latch) = (other.countdown_latch("x"), polling.countdown_latch("x"));
        for _ in 0..2 {
            assert!(theirs.try_set_count(2).await.unwrap());
            let wait = latch.wait();
            let wait = tokio::spawn(async move { wait.await.unwrap() });
            let wait_for = latch.wait_for(9 * SECOND);
            let wait_for = tokio::spawn(async move { wait_for.await.unwrap() });
            let free = async || {
                theirs.count_down(1).await.unwrap();
            };
            waits(latch.count_down_and_wait(1), free).await.unwrap();
            wait.await.unwrap();
            assert!(wait_for.await.unwrap());
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn polling_waiter_of_a_multi_lock_never_subscribes() {
    assert_never_listens(async |other: &Client, polling: &Client| {
        let members = |client: &Client| {
            let lock = client.read_write_lock("w");
            let read = client.read_write_lock("r");
            client.multi_lock(&[
                &client.lock("a"),
                &client.lock("b"),
                &client.fair_lock("f"),
                &lock.write_side(),
                &read.read_side(),
            ])
        };
        let beside = other.read_write_lock("r").write().await.unwrap();
        let held = other.multi_lock(&[&other.lock("b"), &other.fair_lock("f")]);
        let held = held.lock().await.unwrap();
        let free = async || {
            held.release().await;
            tokio::time::sleep(50 * MS).await;
            beside.release().await.unwrap();
        };
        let guard = waits(members(polling).lock(), free).await.unwrap();
        guard.release().await;
    })
    .await;
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
            held.release().await;
        };
        let guard = waits(red(3).lock(), free).await.unwrap();
        guard.release().await;
        for node in &nodes {
            let server = node.embedded_server();
            assert_eq!(server.connection_count(), 2, "one for each client");
            for command in LISTENING {
                assert_eq!(server.command_count(command), 0, "{command}");
            }
        }
    }
}
