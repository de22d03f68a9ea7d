//! Releases and undos in the background: what is refused for a while, and what asks behind them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test has the clock of its runtime"
)]

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::join_all;
use redlatch::{
    Client, Error, PermitExpirableSemaphore, PermitId,
    seam::{Command, ServerError},
};
use redlatch_embedded::{LostReply, calls};
use redlatch_tests::backend::Backend;

type Guard = Box<dyn std::any::Any + Send>;
type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Guard>, Error>> + Send>>;

/// One way to hold a name alone, or the only permit there is.
#[derive(Clone, Copy)]
struct Way {
    kind: &'static str,
    lock: fn(&Client, &str) -> Acquiring,
    try_lock: fn(&Client, &str) -> Acquiring,
}

macro_rules! way {
    ($kind:literal, $handle:expr, $lock:ident, $try_lock:ident) => {
        Way {
            kind: $kind,
            lock: |client, name| {
                let handle: fn(&Client, &str) -> _ = $handle;
                let acquiring = handle(client, name).$lock();
                Box::pin(async move { acquiring.await.map(|guard| Some(Box::new(guard) as Guard)) })
            },
            try_lock: |client, name| {
                let handle: fn(&Client, &str) -> _ = $handle;
                let acquiring = handle(client, name).$try_lock();
                Box::pin(async move {
                    let guard = acquiring.await?;
                    Ok(guard.map(|guard| Box::new(guard) as Guard))
                })
            },
        }
    };
}

const WAYS: [Way; 6] = [
    way!("lock", |client, name| client.lock(name), lock, try_lock),
    way!(
        "fair",
        |client, name| client.fair_lock(name),
        lock,
        try_lock
    ),
    way!(
        "write",
        |client, name| client.read_write_lock(name),
        write,
        try_write
    ),
    way!(
        "semaphore",
        |client, name| client.semaphore(name).permits_if_unset(1),
        acquire,
        try_acquire
    ),
    way!(
        "multi",
        |client, name| {
            let (first, second) = (client.lock(name), client.lock(&format!("{name}:2")));
            client.multi_lock(&[&first, &second])
        },
        lock,
        try_lock
    ),
    Way {
        kind: "permits",
        lock: |client, name| permits(client, name, false),
        try_lock: |client, name| permits(client, name, true),
    },
];

/// A permit with an id. When dropped it is given back, by one who insists.
struct Permit(PermitExpirableSemaphore, Option<PermitId>);

impl Drop for Permit {
    fn drop(&mut self) {
        let (permits, id) = (self.0.clone(), self.1.take().unwrap());
        tokio::spawn(async move {
            while permits.release(&id).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
}

fn permits(client: &Client, name: &str, once: bool) -> Acquiring {
    let permits = client.permit_expirable_semaphore(name).permits_if_unset(1);
    Box::pin(async move {
        let id = if once {
            permits.try_acquire().await?
        } else {
            Some(permits.acquire().await?)
        };
        Ok(id.map(|id| Box::new(Permit(permits, Some(id))) as Guard))
    })
}

/// Whoever had the right to ask has it again: nothing of the time between may last longer.
#[tokio::test(start_paused = true)]
async fn releases_refused_for_half_a_second_are_sent_again() {
    for way in WAYS {
        let backend = Backend::embedded();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let other = backend.client().await;
        let holder = (way.lock)(&client, "x").await.unwrap();
        let wait = |client: &Client| {
            let acquiring = (way.lock)(client, "x");
            tokio::spawn(async move { acquiring.await.map(drop) })
        };
        let cancelled: Vec<_> = (0..10).map(|_| wait(&client)).collect();
        backend.pass(Duration::from_millis(100)).await;
        let waiters: Vec<_> = (0..10).map(|_| wait(&other)).collect();
        backend.pass(Duration::from_millis(100)).await;

        // Its scripts alone are refused, so that those who wait go on waiting.
        refuse(&backend);
        drop(holder);
        cancelled.iter().for_each(tokio::task::JoinHandle::abort);
        backend.pass(Duration::from_millis(500)).await;
        server.clear_trouble();

        let served = async {
            for served in join_all(waiters).await {
                // One that asked meanwhile was told that it may not.
                drop(served.unwrap());
            }
            client.settled().await;
            other.settled().await;
        };
        let served = tokio::time::timeout(Duration::from_secs(3), served).await;
        assert!(served.is_ok(), "{}: somebody still waits", way.kind);
        // A permit with an id goes back by a task of its own.
        backend.pass(Duration::from_millis(100)).await;
        let again = tokio::time::timeout(Duration::from_secs(1), (way.try_lock)(&other, "x"));
        assert!(again.await.unwrap().unwrap().is_some(), "{}", way.kind);
    }
}

/// An acquisition whose request is refused ends with the error; what an earlier request of it may have taken is given back all the same.
#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_refused_is_undone_when_the_server_lets_it() {
    for way in WAYS {
        let backend = Backend::embedded();
        backend.preload();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let other = backend.client().await;
        // Granted, and nobody knows.
        let on = Arc::new(AtomicBool::new(false));
        refuse_if(&backend, &on);
        let of_script = calls::of_scripts();
        let lost = move |command: &Command| {
            let lost = of_script(command);
            on.fetch_or(lost, Relaxed);
            lost
        };
        server.drop_reply(lost, LostReply::Cuts);
        let refused = (way.lock)(&client, "x").await;
        assert!(refused.is_err(), "{}: {:?}", way.kind, refused.map(drop));
        backend.pass(Duration::from_millis(500)).await;
        server.clear_trouble();
        backend.pass(Duration::from_secs(3)).await;
        assert_eq!(client.tables().partings, 0, "{}", way.kind);
        let free = (way.try_lock)(&other, "x").await.unwrap();
        assert!(free.is_some(), "{}: it stays taken", way.kind);
    }
}

/// A caller of `release` learns that it was refused, and the release goes on in the background.
#[tokio::test(start_paused = true)]
async fn a_refused_release_is_an_error_and_goes_on() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    refuse(&backend);
    let refused = guard.release().await.unwrap_err();
    assert_eq!(refused.kind(), redlatch::ErrorKind::Permission);
    assert!(client.lock("x").try_lock().await.is_err());
    backend.embedded_server().clear_trouble();
    backend.pass(Duration::from_secs(3)).await;
    assert!(client.lock("x").try_lock().await.unwrap().is_some());
}

/// What is refused for good ends with the lease and not before, and is asked for seldom.
#[tokio::test(start_paused = true)]
async fn a_release_that_stays_refused_ends_with_its_lease() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = client
        .lock("x")
        .lock()
        .lease(Duration::from_secs(10))
        .await
        .unwrap();
    refuse(&backend);
    drop(guard);
    backend.pass(Duration::from_secs(9)).await;
    assert_eq!(client.tables().partings, 1);
    backend.pass(Duration::from_secs(10)).await;
    assert_eq!(client.tables().partings, 0);
}

/// Refuses scripts until the trouble is cleared.
fn refuse(backend: &Backend) {
    refuse_if(backend, &Arc::new(AtomicBool::new(true)));
}

fn refuse_if(backend: &Backend, on: &Arc<AtomicBool>) {
    for _ in 0..2_000 {
        let (on, of_script) = (Arc::clone(on), calls::of_scripts());
        let refused = move |command: &Command| on.load(Relaxed) && of_script(command);
        let error = "NOPERM this user has no permissions to run the 'evalsha' command";
        let server = backend.embedded_server();
        server.fail_next(refused, ServerError::parse(error));
    }
}
