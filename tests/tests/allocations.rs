//! What the client allocates: counts, which depend on no clock. A binary of its own, since the
//! counter is the allocator of all that it counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test has the clock of its runtime"
)]

use std::{
    future::{Future, IntoFuture, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use allocation_counter::{AllocationInfo, measure, opt_out};
use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redlatch::{
    Client,
    runtime::{Command, Conn, Dial, DialError, Dialed, Outcome, Transport},
};
use redlatch_embedded::EmbeddedTransport;
use redlatch_tests::backend::Backend;
use tokio::runtime::{Builder, Runtime};

/// With the labels of metrics, of which each counter and each change of a gauge has a list of its
/// own, and without what a transport needs.
#[test]
fn an_uncontended_pair_allocates_little() {
    let (runtime, client) = client();
    let lock = client.lock("x");
    let pairs = |count: u32| {
        let info = measure(|| {
            runtime.block_on(async {
                for _ in 0..count {
                    lock.lock().await.unwrap().release().await.unwrap();
                }
            });
        });
        info.count_total
    };
    pairs(64);
    let each = (pairs(1064) - pairs(64)) / 1000;
    assert_near("allocations of a pair", each.try_into().unwrap(), PAIR);
}

/// Far fewer would say that they are not counted.
fn assert_near(what: &str, counted: i64, most: i64) {
    println!("{what}: {counted}");
    assert!((most / 3..=most).contains(&counted), "{what}: {counted}");
}

#[test]
fn held_lock_keeps_little_memory() {
    let (runtime, client) = client();
    // Tables grow by steps.
    drop(hold(&runtime, &client, "warm", 10).0);
    let (guards, info) = hold(&runtime, &client, "x", 2000);
    assert_near("bytes of a hold", info.bytes_current / 2000, HOLD);
    drop(guards);
}

/// What waits has its future for as long, and each is moved to where it is run: rare paths have
/// boxes of their own, and nothing is in one twice.
#[test]
fn futures_that_wait_are_small() {
    let (runtime, client) = client();
    let lock = client.lock("x");
    let acquisition = size_of_val(&*lock.lock().into_future());
    assert_near(
        "bytes of an acquisition",
        acquisition.try_into().unwrap(),
        ACQUISITION,
    );
    let guard = runtime.block_on(lock.lock().into_future()).unwrap();
    let release = guard.release();
    let size = size_of_val(&release);
    assert_near("bytes of a release", size.try_into().unwrap(), RELEASE);
    runtime.block_on(release).unwrap();
}

#[test]
fn waiter_keeps_little_memory() {
    let (runtime, client) = client();
    let fair = client.fair_lock("fair");
    let plain = client.lock("plain");
    let held = runtime.block_on(async {
        let fair = fair.lock().into_future().await.unwrap();
        (fair, plain.lock().into_future().await.unwrap())
    });
    let each = wait(&runtime, || plain.lock().into_future());
    assert_near("bytes of a waiter", each, WAITER);
    let each = wait(&runtime, || fair.lock().into_future());
    assert_near("bytes of a waiter of a fair lock", each, FAIR_WAITER);
    drop(held);
}

/// Waits that are given up leave undos behind, which a server that is away may keep from being
/// sent.
#[test]
fn undo_keeps_little_memory() {
    let (runtime, client) = client();
    let (fair, read) = (client.fair_lock("fair"), client.read_write_lock("read"));
    let held = runtime.block_on(async {
        let fair = fair.lock().into_future().await.unwrap();
        (fair, read.write().into_future().await.unwrap())
    });
    wait(&runtime, || fair.lock().into_future());
    runtime.block_on(client.settled());
    let fair = give_up(&runtime, || fair.lock().into_future());
    let fair = (fair, client.tables().pending_releases);
    runtime.block_on(client.settled());
    let read = give_up(&runtime, || read.read().into_future());
    let read = (read, client.tables().pending_releases);
    for (kind, (each, left)) in [("fair", fair), ("read", read)] {
        assert_eq!(left, 2000, "{kind}");
        assert_near(&format!("bytes of an undo, {kind}"), each, UNDO);
    }
    drop(held);
}

/// Returns how many bytes are kept of each of many waits that are given up.
fn give_up<F: Future>(runtime: &Runtime, waiter: impl Fn() -> F) -> i64 {
    let waits = measure(|| {
        let mut waiting = FuturesUnordered::new();
        runtime.block_on(async {
            (0..2000).for_each(|_| waiting.push(waiter()));
            let a_while = tokio::time::sleep(Duration::from_secs(1));
            let mut a_while = std::pin::pin!(a_while);
            futures_util::future::select(waiting.next(), &mut a_while).await;
        });
        // Nothing is sent outside of the runtime.
        drop(waiting);
    });
    waits.bytes_current / 2000
}

/// Returns how many bytes each of many waiters keeps.
fn wait<F: Future>(runtime: &Runtime, waiter: impl Fn() -> F) -> i64 {
    let some = |count: i64| {
        let mut waiting = FuturesUnordered::new();
        let info = measure(|| {
            runtime.block_on(async {
                (0..count).for_each(|_| waiting.push(waiter()));
                let a_while = tokio::time::sleep(Duration::from_secs(5));
                let mut a_while = std::pin::pin!(a_while);
                futures_util::future::select(waiting.next(), &mut a_while).await;
            });
        });
        info.bytes_current
    };
    some(100);
    some(2000) / 2000
}

/// Takes so many names; the guards' own place is the caller's.
fn hold(
    runtime: &Runtime,
    client: &Client,
    stem: &str,
    count: usize,
) -> (Vec<redlatch::LockGuard>, AllocationInfo) {
    let mut guards = Vec::with_capacity(count);
    let info = measure(|| {
        runtime.block_on(async {
            for i in 0..count {
                let lock = client.lock(format!("{stem}:{i}"));
                guards.push(lock.lock().into_future().await.unwrap());
            }
        });
    });
    (guards, info)
}

/// Connects to a server whose allocations, and those on the way to it, do not count.
fn client() -> (Runtime, Client) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let client = runtime.block_on(async {
        let backend = Backend::embedded();
        let inner = backend.embedded_transport();
        backend.client_over(Uncounted { inner }).await
    });
    (runtime, client)
}

#[derive(Debug)]
struct Uncounted<T> {
    inner: T,
}

#[async_trait]
impl Transport for Uncounted<EmbeddedTransport> {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let mut dialed = self.inner.dial(dial).await?;
        let inner = dialed.conn;
        dialed.conn = Arc::new(Uncounted { inner });
        Ok(dialed)
    }
}

#[async_trait]
impl Conn for Uncounted<Arc<dyn Conn>> {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        // What comes in is dropped here and what goes out is made here, as over a network; between
        // the two nothing counts.
        let mut own = None;
        opt_out(|| own = Some(batch.clone()));
        drop(batch);
        let mut sending = None;
        let answer = poll_fn(|context| {
            let mut polled = Poll::Pending;
            opt_out(|| {
                let sending = sending.get_or_insert_with(|| self.inner.send(own.take().unwrap()));
                polled = sending.as_mut().poll(context);
            });
            polled
        });
        let outcomes = answer.await;
        let counted = outcomes.clone();
        opt_out(|| drop((outcomes, sending.take())));
        counted
    }
}

/// Allocations of an acquisition and its release.
const PAIR: i64 = 26;

/// Bytes that a hold, its guard left out, keeps of the heap.
const HOLD: i64 = 410;

/// Bytes that a waiter keeps of the heap.
const WAITER: i64 = 2700;
const FAIR_WAITER: i64 = 2900;

/// Bytes that a wait that was given up keeps of the heap until it is undone.
const UNDO: i64 = 150;

/// Bytes of the future of an acquisition.
const ACQUISITION: i64 = 2100;

/// Bytes of the future of a release.
const RELEASE: i64 = 1500;
