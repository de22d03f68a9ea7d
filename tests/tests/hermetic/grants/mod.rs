//! Grants that a release makes ahead: the waiter holds without a request of its own. The kinds
//! whose releases grant, and what the tests need of each.

mod apart;
mod own;
mod permits;
mod told;
mod write;

use std::{
    fmt::Debug,
    pin::{Pin, pin},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
    poll,
};
use redlatch::runtime::Command;
use redlatch_lua::{FAIR, POOL, RWLOCK};
use tokio::task::JoinError;

use crate::{prelude::*, ways::Guard};

const KEY: &str = "redlatch:{x}";
const QUEUE: &str = "redlatch:{x}:q";
const POLL: WaitStrategy = WaitStrategy::Poll(Backoff::constant(Duration::from_millis(100)));

/// The kinds whose releases grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fair,
    Write,
    Semaphore,
}

const KINDS: [Kind; 3] = [Kind::Fair, Kind::Write, Kind::Semaphore];

/// Returns each kind with each of two variants.
fn each<T: Copy>(one: T, other: T) -> impl Iterator<Item = (Kind, T)> {
    let rows = move |kind| [(kind, one), (kind, other)];
    KINDS.into_iter().flat_map(rows)
}

type Acquiring = BoxFuture<'static, Result<Guard, Error>>;

/// Makes an acquisition of a builder.
fn acquiring<G: Into<Guard>>(
    acquire: impl IntoFuture<Output = Result<G, Error>, IntoFuture: Send + 'static>,
) -> Acquiring {
    let acquire = acquire.into_future();
    acquire.map(|acquired| acquired.map(Into::into)).boxed()
}

impl Kind {
    fn acquire(self, client: &Client) -> Acquiring {
        match self {
            Self::Fair => acquiring(client.fair_lock("x").lock()),
            Self::Write => acquiring(client.read_write_lock("x").write()),
            Self::Semaphore => acquiring(client.semaphore("x").acquire()),
        }
    }

    /// Acquires for a lease that is not renewed.
    fn acquire_for(self, client: &Client, lease: Duration) -> Acquiring {
        match self {
            Self::Fair => acquiring(client.fair_lock("x").lock().lease(lease)),
            Self::Write => acquiring(client.read_write_lock("x").write().lease(lease)),
            Self::Semaphore => acquiring(client.semaphore("x").acquire().lease(lease)),
        }
    }

    /// Returns the text of its acquire script.
    fn acquire_script(self) -> &'static str {
        match self {
            Self::Fair => FAIR.exclusive.acquire.text,
            Self::Write => RWLOCK.write.text,
            Self::Semaphore => POOL.acquire.text,
        }
    }

    /// Returns the text of its release script.
    fn release_script(self) -> &'static str {
        match self {
            Self::Fair => FAIR.exclusive.release.text,
            Self::Write => RWLOCK.release.text,
            Self::Semaphore => POOL.release.text,
        }
    }

    /// Returns the words of the hold of a semaphore: its end, and more.
    fn permit(backend: &Backend) -> Vec<String> {
        let mut fields = backend.hash(KEY).into_iter();
        let (_, hold) = fields.find(|(field, _)| field.starts_with("h:")).unwrap();
        hold.split(' ').map(str::to_owned).collect()
    }

    /// Returns the end of the only hold, in milliseconds of the server's clock.
    fn ends(self, backend: &Backend) -> u64 {
        match self {
            Self::Semaphore => Self::permit(backend)[0].parse().unwrap(),
            _ => backend.hash(KEY)["u"].parse().unwrap(),
        }
    }

    /// Returns the milliseconds that the only hold lasts on the server.
    fn lasts(self, backend: &Backend) -> u64 {
        self.ends(backend) - backend.embedded_server().now().millis()
    }

    /// Tells whether the only hold was granted and its holder has not been heard of since.
    fn is_unconfirmed(self, backend: &Backend) -> bool {
        match self {
            Self::Semaphore => Self::permit(backend).last().unwrap() == "g",
            _ => backend.hash(KEY).contains_key("p"),
        }
    }

    /// Returns the message about the only hold to the waiter with this entry.
    fn message(self, backend: &Backend, entry: &[String]) -> String {
        let nonce = entry[4].rsplit('.').next().unwrap();
        let token = match self {
            Self::Semaphore => backend.embedded_server().now().micros().to_string(),
            _ => backend.hash(KEY)["t"].clone(),
        };
        let ends = self.ends(backend);
        format!("{KEY} {} g{nonce}.{token}.{ends}.0", entry[2])
    }
}

/// Returns a backend, clients of it, and the guard of the first.
async fn held<const N: usize>(kind: Kind) -> (Backend, [Client; N], Guard) {
    let (backend, clients) = preloaded().await;
    if let Kind::Semaphore = kind {
        clients[0].semaphore("x").set_permits(1).await.unwrap();
    }
    let guard = kind.acquire(&clients[0]).await.unwrap();
    (backend, clients, guard)
}

/// Does the same, and lets the second client wait, or the first one if there is no other.
async fn contended<const N: usize>(kind: Kind) -> (Backend, [Client; N], Guard, JoinHandle<Guard>) {
    let (backend, clients, guard) = held(kind).await;
    let waiter = queued(&backend, &clients[usize::min(1, N - 1)], kind).await;
    (backend, clients, guard, waiter)
}

/// Starts a task that acquires, and returns when it is in the queue.
async fn queues<T: Send + 'static>(
    backend: &Backend,
    acquire: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> JoinHandle<T> {
    let before = backend.members(QUEUE);
    let task = tokio::spawn(async move { acquire.await.unwrap() });
    while backend.members(QUEUE) == before {
        backend.pass(MS).await;
    }
    task
}

/// Starts a task that waits, and returns when it is in the queue.
async fn queued(backend: &Backend, client: &Client, kind: Kind) -> JoinHandle<Guard> {
    queues(backend, kind.acquire(client)).await
}

/// Returns what a waiter got, which it gets at once.
async fn soon<T>(what: impl Debug, waiter: impl Future<Output = Result<T, JoinError>>) -> T {
    within(50 * MS, what, waiter).await.unwrap()
}

/// Polls an acquisition until it is in the queue.
async fn polled_into_the_queue(backend: &Backend, mut acquiring: Pin<&mut Acquiring>) {
    while backend.members(QUEUE) == 0 {
        assert!(poll!(acquiring.as_mut()).is_pending());
        backend.pass(MS).await;
    }
}

/// Returns the words of the first waiter's entry.
fn first_entry(backend: &Backend) -> Vec<String> {
    let range = Command::new("ZRANGE").arg(QUEUE).arg("0").arg("0");
    let reply = backend.embedded_server().execute(&range).unwrap();
    let member = reply.as_array().unwrap()[0].as_str().unwrap();
    member.split(' ').map(str::to_owned).collect()
}
