//! Queues in which waiters come and go all the time, and servers that take over without having
//! heard the latest of it. Entries of waiters that have gone come back with them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use redlatch::{Client, Error};
use redlatch_tests::{
    fixture::{MS, SECOND},
    server::{Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};
use tokio::task::JoinHandle;

use super::support::group;

redlatch_tests::on_every_server!(
    queues_move_on_after_a_failover_by_order,
    queues_move_on_after_a_restart_from_an_old_snapshot,
    queues_move_on_after_rights_were_taken_away_for_a_while,
);

async fn queues_move_on_after_a_failover_by_order(binary: ServerBinary) {
    let group = group(&binary);
    let churn = Churn::start(&group.url()).await;
    churn.moves_on().await;
    let before = group.master().port();
    group.fail_over();
    group.await_other_than(before);
    churn
        .moves_on_after(&format!("{binary}, failed over"))
        .await;
    churn.end().await;
}

async fn queues_move_on_after_a_restart_from_an_old_snapshot(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new());
    let churn = Churn::start(&server.url()).await;
    churn.moves_on().await;
    server.command(&["SAVE"]).unwrap();
    // What is saved grows old.
    tokio::time::sleep(500 * MS).await;
    server.kill();
    server.restart();
    churn.moves_on_after(&format!("{binary}, restarted")).await;
    churn.end().await;
}

async fn queues_move_on_after_rights_were_taken_away_for_a_while(binary: ServerBinary) {
    let options = ServerOptions::new().user("app on >secret ~* &* +@all");
    let server = Server::start(&binary, options);
    let churn = Churn::start(&format!("redis://app:secret@{}", server.address())).await;
    churn.moves_on().await;
    let app = |rights: &str| drop(server.command(&["ACL", "SETUSER", "app", rights]).unwrap());
    app("-@all");
    tokio::time::sleep(500 * MS).await;
    app("+@all");
    churn
        .moves_on_after(&format!("{binary}, rights given back"))
        .await;
    churn.end().await;
}

/// What is queued for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Fair,
    Read,
    Write,
    Semaphore,
    Permits,
}

const KINDS: [Kind; 5] = [
    Kind::Fair,
    Kind::Read,
    Kind::Write,
    Kind::Semaphore,
    Kind::Permits,
];

impl Kind {
    /// Acquires, works for a moment, and releases. A release may be lost with its server.
    async fn round(self, client: &Client) -> Result<(), Error> {
        match self {
            Self::Fair => {
                let guard = client.fair_lock("fair").lock().renewed_lease(LEASE).await?;
                work().await;
                guard.release().await?;
            }
            // Readers wait for writers only.
            Self::Read => {
                let lock = client.read_write_lock("sides");
                let guard = lock.read().renewed_lease(LEASE).await?;
                work().await;
                guard.release().await?;
            }
            Self::Write => {
                let lock = client.read_write_lock("sides");
                let guard = lock.write().renewed_lease(LEASE).await?;
                work().await;
                guard.release().await?;
            }
            Self::Semaphore => {
                let semaphore = client.semaphore("semaphore").permits_if_unset(2);
                let permit = semaphore.acquire().renewed_lease(LEASE).await?;
                work().await;
                permit.release().await?;
            }
            Self::Permits => {
                let permits = client.permit_expirable_semaphore("permits");
                let permits = permits.permits_if_unset(2);
                let id = permits.acquire().lease(LEASE).await?;
                work().await;
                permits.release(&id).await?;
            }
        }
        Ok(())
    }
}

async fn work() {
    tokio::time::sleep(MS).await;
}

/// Twenty tasks of two clients for each kind, all of which want the same object.
struct Churn {
    over: Arc<AtomicBool>,
    rounds: [Arc<AtomicU32>; KINDS.len()],
    tasks: Vec<JoinHandle<()>>,
}

impl Churn {
    async fn start(url: &str) -> Self {
        let clients = [
            Client::connect(url).await.unwrap(),
            Client::connect(url).await.unwrap(),
        ];
        let over = Arc::new(AtomicBool::new(false));
        let rounds: [Arc<AtomicU32>; KINDS.len()] = Default::default();
        let mut tasks = Vec::new();
        for (kind, rounds) in KINDS.into_iter().zip(&rounds) {
            for at in 0..20 {
                let client = clients[at % 2].clone();
                let (over, rounds) = (Arc::clone(&over), Arc::clone(rounds));
                tasks.push(tokio::spawn(async move {
                    while !over.load(Ordering::Relaxed) {
                        match kind.round(&client).await {
                            Ok(()) => drop(rounds.fetch_add(1, Ordering::Relaxed)),
                            Err(_) => tokio::time::sleep(10 * MS).await,
                        }
                    }
                }));
            }
        }
        Self {
            over,
            rounds,
            tasks,
        }
    }

    fn count(&self) -> [u32; KINDS.len()] {
        self.rounds
            .each_ref()
            .map(|rounds| rounds.load(Ordering::Relaxed))
    }

    /// Waits until each kind has been had as often as there are waiters, twice.
    async fn moves_on(&self) {
        let before = self.count();
        for (at, kind) in KINDS.into_iter().enumerate() {
            eventually(&format!("{kind:?} to move on"), GENEROUS, async || {
                self.count()[at] >= before[at] + 40
            })
            .await;
        }
    }

    async fn moves_on_after(&self, what: &str) {
        let start = Instant::now();
        self.moves_on().await;
        println!(
            "{what}: every kind was had 40 times within {:?}",
            start.elapsed()
        );
    }

    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

const LEASE: Duration = SECOND.saturating_mul(3);
