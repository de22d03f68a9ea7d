//! Queue entries that come back although their waiters have gone: after a failover that loses
//! writes, or a restart from an old snapshot.

use std::time::Duration;

use redlatch::{Client, Error, runtime::Command};
use redlatch_embedded::EmbeddedServer;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    wait::{GENEROUS, eventually},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    Semaphore,
    Permits,
}

const KINDS: [Kind; 6] = [
    Kind::Lock,
    Kind::Fair,
    Kind::Read,
    Kind::Write,
    Kind::Semaphore,
    Kind::Permits,
];

/// Any guard; dropping it releases.
type Guard = Box<dyn Send>;

impl Kind {
    /// Acquires what keeps the waiters of this kind waiting.
    async fn hold(self, client: &Client) -> Guard {
        match self {
            Self::Read => Box::new(client.read_write_lock("x").write().await.unwrap()),
            _ => self.acquire(client).await.unwrap(),
        }
    }

    async fn acquire(self, client: &Client) -> Result<Guard, Error> {
        Ok(match self {
            Self::Lock => Box::new(client.lock("x").lock().await?),
            Self::Fair => Box::new(client.fair_lock("x").lock().await?),
            Self::Read => Box::new(client.read_write_lock("x").read().await?),
            Self::Write => Box::new(client.read_write_lock("x").write().await?),
            Self::Semaphore => {
                let semaphore = client.semaphore("x").permits_if_unset(1);
                Box::new(semaphore.acquire().await?)
            }
            Self::Permits => {
                let permits = client.permit_expirable_semaphore("x").permits_if_unset(1);
                let ids = permits.acquire_many(1).await?;
                Box::new(Released(Some((client.clone(), ids))))
            }
        })
    }
}

/// Gives permits back by their ids when it is dropped.
struct Released(Option<(Client, Vec<redlatch::PermitId>)>);

impl Drop for Released {
    fn drop(&mut self) {
        let Some((client, ids)) = self.0.take() else {
            return;
        };
        tokio::spawn(async move {
            let permits = client.permit_expirable_semaphore("x");
            permits.release_all(&ids).await.unwrap();
        });
    }
}

fn server(backend: &Backend) -> &EmbeddedServer {
    match backend {
        Backend::Embedded { server, .. } => server,
        _ => unreachable!("it was made here"),
    }
}

/// Returns how many entries all queues of `x` have.
fn entries(server: &EmbeddedServer) -> i64 {
    let count = |key: &str| {
        let command = Command::new("ZCARD").arg(key);
        let reply = server.execute(&command).unwrap();
        reply.as_int().unwrap()
    };
    count("redlatch:{x}:q") + count("redlatch:{x}:r")
}

async fn waiters(kind: Kind, client: &Client, n: usize) -> Vec<JoinHandle<Result<Guard, Error>>> {
    let one = |_| {
        let client = client.clone();
        tokio::spawn(async move { kind.acquire(&client).await })
    };
    let tasks: Vec<_> = (0..n).map(one).collect();
    eventually("waiters to wait", GENEROUS, async || {
        client.tables().waiters == n
    })
    .await;
    tokio::time::sleep(20 * MS).await;
    tasks
}

/// Makes a client wait for objects of every kind, each of another name.
async fn wait_for_every_kind(holder: &Client, client: &Client) {
    let (lock, fair) = (holder.lock("a"), holder.fair_lock("b"));
    let sides = holder.read_write_lock("c");
    let semaphore = holder.semaphore("d").permits_if_unset(1);
    let permits = holder.permit_expirable_semaphore("e").permits_if_unset(1);
    let held = (
        lock.lock().await.unwrap(),
        fair.lock().await.unwrap(),
        sides.write().await.unwrap(),
        semaphore.acquire().await.unwrap(),
    );
    let id = permits.acquire().await.unwrap();
    let wait = 10 * MS;
    let busy = (
        client.lock("a").try_lock_for(wait).await.unwrap().is_none(),
        client
            .fair_lock("b")
            .try_lock_for(wait)
            .await
            .unwrap()
            .is_none(),
        client
            .read_write_lock("c")
            .try_read_for(wait)
            .await
            .unwrap()
            .is_none(),
        client
            .read_write_lock("c")
            .try_write_for(wait)
            .await
            .unwrap()
            .is_none(),
        client
            .semaphore("d")
            .try_acquire_for(wait)
            .await
            .unwrap()
            .is_none(),
    );
    assert_eq!(busy, (true, true, true, true, true));
    let more = client.permit_expirable_semaphore("e");
    assert!(more.try_acquire_for(wait).await.unwrap().is_none());
    drop(held);
    permits.release(&id).await.unwrap();
    holder.settled().await;
    client.settled().await;
}

/// Twenty entries of waiters that have gone come back in front of one that waits.
async fn entries_come_back(kind: Kind, same_client: bool) -> Duration {
    let backend = Backend::embedded();
    let (holder, ghosts) = (backend.client().await, backend.client().await);
    let other = backend.client().await;
    wait_for_every_kind(&holder, &ghosts).await;
    let guard = kind.hold(&holder).await;
    let gone = waiters(kind, &ghosts, 20).await;
    let before = server(&backend).snapshot();
    assert!(entries(server(&backend)) >= 1, "{kind:?} queues nowhere");
    gone.iter().for_each(JoinHandle::abort);
    ghosts.settled().await;
    tokio::time::sleep(20 * MS).await;
    server(&backend).restore(&before);

    let waiting = if same_client { &ghosts } else { &other };
    let alive = waiters(kind, waiting, 1).await;
    let start = Instant::now();
    drop(guard);
    for waiter in alive {
        drop(waiter.await.unwrap().unwrap());
    }
    let took = start.elapsed();
    for client in [&holder, &ghosts, &other] {
        client.settled().await;
        assert_tables_empty(client).await;
    }
    took
}

#[tokio::test(start_paused = true)]
async fn restored_entries_of_another_client_are_withdrawn_at_once() {
    for kind in KINDS {
        let took = entries_come_back(kind, false).await;
        assert!(took < 3 * SECOND, "{kind:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn restored_entries_of_the_same_client_are_withdrawn_at_once() {
    for kind in KINDS {
        let took = entries_come_back(kind, true).await;
        assert!(took < 3 * SECOND, "{kind:?}: {took:?}");
    }
}

/// The readers of a batch hold back the next writer. Those that are not there any more hold it back
/// for a re-check at most.
#[tokio::test(start_paused = true)]
async fn restored_readers_do_not_block_a_writer() {
    let backend = Backend::embedded();
    let (holder, ghosts) = (backend.client().await, backend.client().await);
    let (others, writer) = (backend.client().await, backend.client().await);
    let guard = Kind::Write.hold(&holder).await;
    let first = waiters(Kind::Read, &ghosts, 10).await;
    let second = waiters(Kind::Read, &others, 10).await;
    let writing = waiters(Kind::Write, &writer, 1).await;
    let before = server(&backend).snapshot();
    first.iter().chain(&second).for_each(JoinHandle::abort);
    ghosts.settled().await;
    others.settled().await;
    tokio::time::sleep(20 * MS).await;
    server(&backend).restore(&before);
    let start = Instant::now();
    drop(guard);
    for waiter in writing {
        drop(waiter.await.unwrap().unwrap());
    }
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
}

/// A writer that gave up holds back readers that come later, and nobody calls it while others read.
#[tokio::test(start_paused = true)]
async fn restored_writer_does_not_block_readers() {
    let backend = Backend::embedded();
    let (holder, client) = (backend.client().await, backend.client().await);
    let reading = holder.read_write_lock("x").read().await.unwrap();
    let gone = waiters(Kind::Write, &client, 1).await;
    let before = server(&backend).snapshot();
    gone.iter().for_each(JoinHandle::abort);
    client.settled().await;
    server(&backend).restore(&before);
    // As a server does that takes over.
    server(&backend).cut_connections();
    let start = Instant::now();
    for reader in waiters(Kind::Read, &client, 3).await {
        drop(reader.await.unwrap().unwrap());
    }
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
    reading.release().await.unwrap();
}

/// One that needs more permits than are free is not called, and those behind it wait for it.
#[tokio::test(start_paused = true)]
async fn restored_waiter_for_many_permits_blocks_nobody() {
    let backend = Backend::embedded();
    let (holder, client) = (backend.client().await, backend.client().await);
    let semaphore = holder.semaphore("x").permits_if_unset(10);
    let held = semaphore.acquire().await.unwrap();
    let many = client.semaphore("x");
    let gone = tokio::spawn(async move { many.acquire_many(10).await.map(drop) });
    tokio::time::sleep(20 * MS).await;
    let before = server(&backend).snapshot();
    gone.abort();
    client.settled().await;
    server(&backend).restore(&before);
    server(&backend).cut_connections();
    let start = Instant::now();
    for waiter in waiters(Kind::Semaphore, &client, 3).await {
        drop(waiter.await.unwrap().unwrap());
    }
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn forged_notifications_cost_one_request() {
    for kind in KINDS {
        let backend = Backend::embedded();
        let (holder, client) = (backend.client().await, backend.client().await);
        let guard = kind.hold(&holder).await;
        let waiting = waiters(kind, &client, 2).await;
        let calls = backend.script_calls();
        for says in [
            "redlatch:{x}",
            "redlatch:{x} 7",
            "redlatch:{y} 7",
            "nonsense",
            "{}",
        ] {
            let channel = format!("redlatch:w:{}", client.id());
            backend.command(&["PUBLISH", &channel, says]);
        }
        tokio::time::sleep(100 * MS).await;
        assert!(
            waiting.iter().all(|waiter| !waiter.is_finished()),
            "{kind:?}"
        );
        assert!(backend.script_calls() - calls < 20);
        drop(guard);
        for waiter in waiting {
            drop(waiter.await.unwrap().unwrap());
        }
    }
}

/// Whoever may publish can forge calls to waiters that have gone, and no more than that.
#[tokio::test(start_paused = true)]
async fn forged_calls_cause_a_bounded_number_of_requests() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    // The client has waited for each kind.
    for kind in KINDS {
        let other = backend.client().await;
        let hold = kind.hold(&other).await;
        assert!(timeout(SECOND, kind.acquire(&client)).await.is_err());
        drop(hold);
        other.close_now().await;
        client.settled().await;
        for key in backend.keys() {
            backend.embedded_server().delete_key(key);
        }
    }
    let channel = format!("redlatch:w:{}", client.id());
    let before = backend.script_calls();
    let start = Instant::now();
    for n in 0.. {
        if start.elapsed() >= 4 * SECOND {
            break;
        }
        for m in 0..100 {
            let call = format!("redlatch:{{x{}}} {n}", m * 7 + n % 7);
            backend.command(&["PUBLISH", &channel, &call]);
        }
        backend.pass(MS).await;
    }
    let requests = backend.script_calls() - before;
    assert!((1_000..=4_500).contains(&requests), "{requests}");
}
