//! Grants by a release to a waiter of the same client. The waiter learns of them from the reply.

use std::{
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::poll;
use redlatch::{
    Client, Error, FairLockGuard, Released, SemaphorePermit, WriteGuard, runtime::Command,
};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::{FAIR, POOL, RWLOCK};
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::{
    task::{JoinHandle, yield_now},
    time::Instant,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const QUEUE: &str = "redlatch:{x}:q";

/// The kinds whose releases grant.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Fair,
    Write,
    Semaphore,
}

const KINDS: [Kind; 3] = [Kind::Fair, Kind::Write, Kind::Semaphore];

#[derive(Debug)]
enum Guard {
    Fair(FairLockGuard),
    Write(WriteGuard),
    Semaphore(SemaphorePermit),
}

type Acquiring = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

impl Kind {
    fn acquire(self, client: &Client) -> Acquiring {
        match self {
            Self::Fair => {
                let acquire = client.fair_lock("x").lock().into_future();
                Box::pin(async { acquire.await.map(Guard::Fair) })
            }
            Self::Write => {
                let acquire = client.read_write_lock("x").write().into_future();
                Box::pin(async { acquire.await.map(Guard::Write) })
            }
            Self::Semaphore => {
                let acquire = client.semaphore("x").acquire().into_future();
                Box::pin(async { acquire.await.map(Guard::Semaphore) })
            }
        }
    }

    /// Returns the text of its release script.
    fn release(self) -> &'static str {
        match self {
            Self::Fair => FAIR.exclusive.release.text,
            Self::Write => RWLOCK.release.text,
            Self::Semaphore => POOL.release.text,
        }
    }
}

impl Guard {
    async fn release(self) -> Result<Released, Error> {
        match self {
            Self::Fair(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Semaphore(guard) => guard.release().await,
        }
    }

    fn is_after_abandonment(&self) -> bool {
        match self {
            Self::Fair(guard) => guard.is_after_abandonment(),
            Self::Write(guard) => guard.is_after_abandonment(),
            Self::Semaphore(_) => false,
        }
    }
}

/// Returns a backend, a client, and its guard.
async fn held(kind: Kind) -> (Backend, Client, Guard) {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    if let Kind::Semaphore = kind {
        client.semaphore("x").set_permits(1).await.unwrap();
    }
    let guard = kind.acquire(&client).await.unwrap();
    (backend, client, guard)
}

/// Starts a task that waits, and returns when it is in the queue.
async fn queued(backend: &Backend, client: &Client, kind: Kind) -> JoinHandle<Guard> {
    let before = backend.members(QUEUE);
    let acquire = kind.acquire(client);
    let task = tokio::spawn(async move { acquire.await.unwrap() });
    while backend.members(QUEUE) == before {
        backend.pass(MS).await;
    }
    task
}

#[tokio::test(start_paused = true)]
async fn waiter_learns_from_the_reply_to_the_release() {
    for kind in KINDS {
        for dropped in [false, true] {
            let (backend, client, guard) = held(kind).await;
            let waiter = queued(&backend, &client, kind).await;
            backend.embedded_server().drop_messages(9);
            let (before, start) = (backend.script_calls(), Instant::now());
            if dropped {
                drop(guard);
            } else {
                assert_eq!(guard.release().await.unwrap(), Released::Free);
            }
            let next = waiter.await.unwrap();
            assert!(start.elapsed() < 50 * MS, "{kind:?}: {:?}", start.elapsed());
            assert_eq!(backend.script_calls() - before, 1, "{kind:?}");
            assert!(!next.is_after_abandonment());
            assert_eq!(next.release().await.unwrap(), Released::Free);
            // No late message makes the client look for a waiter that it does not have.
            backend.pass(SECOND).await;
            assert_eq!(backend.script_calls() - before, 2, "{kind:?}");
            assert_tables_empty(&client).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writer_learns_from_the_reply_to_the_release_of_the_last_reader() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let reader = client.read_write_lock("x").read().await.unwrap();
    let waiter = queued(&backend, &client, Kind::Write).await;
    let (before, start) = (backend.script_calls(), Instant::now());
    assert_eq!(reader.release().await.unwrap(), Released::Free);
    let next = waiter.await.unwrap();
    assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
    assert_eq!(backend.script_calls() - before, 1);
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn repeated_release_tells_the_waiter_if_the_first_reply_is_lost() {
    for kind in KINDS {
        for how in [LostReply::Cuts, LostReply::Hangs] {
            let (backend, client, guard) = held(kind).await;
            let waiter = queued(&backend, &client, kind).await;
            let server = backend.embedded_server();
            server.drop_reply(calls::of_script(kind.release()), how);
            let start = Instant::now();
            let released = guard.release().await.unwrap();
            // A pool keeps nothing of a hold that is over.
            let known = matches!(released, Released::Free | Released::Unconfirmed);
            assert!(known, "{kind:?}: {released:?}");
            let next = waiter.await.unwrap();
            assert!(start.elapsed() < 4 * SECOND, "{kind:?}, {how:?}");
            assert!(!next.is_after_abandonment());
            next.release().await.unwrap();
        }
    }
}

/// The reply to a release whose future was dropped serves nobody. The releaser sends it again.
#[tokio::test(start_paused = true)]
async fn dropped_release_serves_the_waiter() {
    for kind in KINDS {
        let (backend, client, guard) = held(kind).await;
        let waiter = queued(&backend, &client, kind).await;
        let before = backend.script_calls();
        {
            let mut releasing = pin!(guard.release());
            assert!(poll!(&mut releasing).is_pending());
            while backend.script_calls() == before {
                yield_now().await;
            }
        }
        let start = Instant::now();
        let next = waiter.await.unwrap();
        assert!(start.elapsed() < 50 * MS, "{kind:?}: {:?}", start.elapsed());
        next.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

/// The server stops right after a release has granted, until the lease of that release is over. The
/// client gives the release up, and a waiter asks.
#[tokio::test(start_paused = true)]
async fn release_that_is_given_up_makes_the_first_waiter_ask() {
    let (backend, client, guard) = held(Kind::Fair).await;
    guard.release().await.unwrap();
    let lock = client.fair_lock("x");
    let guard = lock.lock().lease(SECOND).await.unwrap();
    let waiter = queued(&backend, &client, Kind::Fair).await;
    let server = backend.embedded_server();
    server.drop_reply(
        calls::of_script(FAIR.exclusive.release.text),
        LostReply::Hangs,
    );
    let start = Instant::now();
    drop(guard);
    let next = waiter.await.unwrap();
    assert!(start.elapsed() < 4 * SECOND, "{:?}", start.elapsed());
    assert!(!next.is_after_abandonment());
    next.release().await.unwrap();
}

/// The caller waits for no poll of the waiter, which may be in the same task.
#[tokio::test(start_paused = true)]
async fn release_ends_although_nobody_polls_the_waiter() {
    for kind in KINDS {
        let (backend, client, guard) = held(kind).await;
        let mut waiting = pin!(kind.acquire(&client));
        while backend.members(QUEUE) == 0 {
            assert!(poll!(&mut waiting).is_pending());
            backend.pass(MS).await;
        }
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        let next = waiting.await.unwrap();
        assert_eq!(next.release().await.unwrap(), Released::Free);
    }
}

/// A waiter that left right before the grant gives it to the next one.
#[tokio::test(start_paused = true)]
async fn grant_to_a_waiter_that_has_gone_passes_on() {
    for kind in KINDS {
        let (backend, client, guard) = held(kind).await;
        let leaves = queued(&backend, &client, kind).await;
        let next = queued(&backend, &client, kind).await;
        let start = Instant::now();
        let releasing = tokio::spawn(guard.release());
        leaves.abort();
        let next = next.await.unwrap();
        assert!(start.elapsed() < 50 * MS, "{kind:?}: {:?}", start.elapsed());
        assert!(releasing.await.unwrap().unwrap().is_clean());
        next.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

/// Another client ends the hold. Only a message can tell the waiter.
#[tokio::test(start_paused = true)]
async fn revoked_hold_of_a_semaphore_serves_a_waiter_of_its_client() {
    let (backend, client, guard) = held(Kind::Semaphore).await;
    let waiter = queued(&backend, &client, Kind::Semaphore).await;
    let other = backend.client().await.semaphore("x");
    let holders = other.holders().await.unwrap();
    let start = Instant::now();
    assert!(other.revoke(&holders[0].id).await.unwrap());
    let next = waiter.await.unwrap();
    assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
    drop(guard);
    next.release().await.unwrap();
}

/// Nobody makes a holder of a waiter by a wrong word in a reply: the waiter asks.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_told_to_hold_asks() {
    let (backend, client, guard) = held(Kind::Fair).await;
    let waiter = queued(&backend, &client, Kind::Fair).await;
    let range = Command::new("ZRANGE").arg(QUEUE).arg("0").arg("0");
    let entry = backend.embedded_server().execute(&range).unwrap();
    let entry = entry.as_array().unwrap()[0].as_str().unwrap().to_owned();
    // Another client ends the hold, so that the message is lost and nothing tells of the grant.
    backend.embedded_server().drop_messages(1);
    let other = backend.client().await;
    assert!(other.fair_lock("x").force_release().await.unwrap());
    let before = backend.script_calls();
    let start = Instant::now();
    // The release finds the later hold of its own client.
    assert_eq!(guard.release().await.unwrap(), Released::Revoked);
    let next = waiter.await.unwrap();
    assert!(start.elapsed() < 50 * MS, "{:?}, {entry}", start.elapsed());
    let calls = backend.script_calls() - before;
    assert_eq!(calls, 2, "the release and a request");
    assert!(next.is_after_abandonment());
    next.release().await.unwrap();
}
