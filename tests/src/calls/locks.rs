//! The calls of locks and elections.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::try_join;
use redlatch::{Client, Lockable, MultiLock, ReadWriteLock, RedLock, Term};
use tokio::sync::Notify;

use super::{Call, Kind, LONG, SHORT, Wait, calls};

/// The plain lock.
#[derive(Debug)]
pub(super) struct Lock;

#[async_trait]
impl Kind for Lock {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let (lock, owner) = (clients[0].lock("lock"), clients[0].owner());
        let held = Arc::new(clients[0].lock("lock-held").lock().await.unwrap());
        let last = clients[0].lock("lock-last").lock().await.unwrap();
        let mut calls = calls! {
            "lock": |lock| lock.lock();
            "try_lock": |lock| lock.try_lock();
            "try_lock_for": |lock| lock.try_lock_for(SHORT);
            "is_locked": |lock| lock.is_locked();
            "is_held_by": |lock, owner| lock.is_held_by(&owner);
            "hold_count": |lock, owner| lock.hold_count(&owner);
            "remaining": |lock| lock.remaining();
            "info": |lock| lock.info();
            "holders": |lock| lock.holders();
            "force_release": |lock| lock.force_release();
            "extend": |held| held.extend(SHORT);
        };
        calls.push(Call::new("release", async move { last.release().await }));
        calls
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client, name: &str| client.lock(format!("lock-{name}"));
        let held = of(&others[0], "a").lock().await.unwrap();
        let held_too = of(&others[0], "b").lock().await.unwrap();
        let (a, b) = (of(&clients[0], "a"), of(&clients[0], "b"));
        vec![
            Wait::new(
                "lock",
                async move { a.lock().await?.release().await },
                async move { held.release().await },
            ),
            Wait::new(
                "try_lock_for",
                async move { b.try_lock_for(LONG).await?.unwrap().release().await },
                async move { held_too.release().await },
            ),
        ]
    }
}

/// The fair lock.
#[derive(Debug)]
pub(super) struct Fair;

#[async_trait]
impl Kind for Fair {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let (lock, owner) = (clients[0].fair_lock("fair"), clients[0].owner());
        let last = clients[0].fair_lock("fair-last").lock().await.unwrap();
        let mut calls = calls! {
            "lock": |lock| lock.lock();
            "try_lock": |lock| lock.try_lock();
            "try_lock_for": |lock| lock.try_lock_for(SHORT);
            "position": |lock, owner| lock.position(&owner);
            "waiters": |lock| async { lock.waiters().next().await.transpose() };
        };
        calls.push(Call::new("release", async move { last.release().await }));
        calls
    }

    /// Two of one client wait: one asks for both.
    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let held = others[0].fair_lock("fair-a").lock().await.unwrap();
        let lock = clients[0].fair_lock("fair-a");
        let both = async move {
            let first = async { lock.lock().await?.release().await };
            let second = async {
                drop(lock.try_lock_for(LONG).await?.unwrap());
                Ok(())
            };
            try_join(first, second).await
        };
        let free = async move { held.release().await };
        vec![Wait::new("lock and try_lock_for", both, free)]
    }
}

/// The read-write lock.
#[derive(Debug)]
pub(super) struct ReadWrite;

#[async_trait]
impl Kind for ReadWrite {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let (lock, owner) = (lock(&clients[0], "free"), clients[0].owner());
        let upgradable = self::lock(&clients[0], "held").upgradable_read();
        let upgradable = Arc::new(upgradable.await.unwrap());
        let write = self::lock(&clients[0], "last").write().await.unwrap();
        let mut calls = calls! {
            "read": |lock| lock.read();
            "try_read_for": |lock| lock.try_read_for(SHORT);
            "write": |lock| lock.write();
            "try_write": |lock| lock.try_write();
            "upgradable_read": |lock| lock.upgradable_read();
            "read_count": |lock, owner| lock.read_count(&owner);
            "write_count": |lock, owner| lock.write_count(&owner);
            "info": |lock| lock.info();
            "holders": |lock| lock.holders();
            "force_release": |lock| lock.force_release();
        };
        calls.push(Call::of_hold("upgrade", async move {
            upgradable.upgrade().await
        }));
        calls.push(Call::of_hold("downgrade", async move {
            write.downgrade().await
        }));
        calls
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let (other, client) = (&others[0], &clients[0]);
        let held_a = lock(other, "a").write().await.unwrap();
        let held_b = lock(other, "b").read().await.unwrap();
        let held_c = lock(other, "c").upgradable_read().await.unwrap();
        let look = lock(client, "d").upgradable_read().await.unwrap();
        let held_d = lock(other, "d").read().await.unwrap();
        let (a, b, c) = (lock(client, "a"), lock(client, "b"), lock(client, "c"));
        vec![
            Wait::new(
                "read",
                async move { a.read().await?.release().await },
                async move { held_a.release().await },
            ),
            Wait::new(
                "write",
                async move { b.write().await?.release().await },
                async move { held_b.release().await },
            ),
            Wait::new(
                "upgradable_read",
                async move { c.upgradable_read().await?.release().await },
                async move { held_c.release().await },
            ),
            Wait::new(
                "upgrade",
                async move {
                    let read = look.upgrade().await?.downgrade().await?;
                    read.release().await?;
                    look.release().await
                },
                async move { held_d.release().await },
            ),
        ]
    }
}

fn lock(client: &Client, name: &str) -> ReadWriteLock {
    client.read_write_lock(format!("rw-{name}"))
}

/// Several locks as one.
#[derive(Debug)]
pub(super) struct Multi;

#[async_trait]
impl Kind for Multi {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let two = |of: &str| {
            let [one, other] = ["1", "2"].map(|at| clients[0].lock(format!("multi-{of}{at}")));
            clients[0].multi_lock(&[&one, &other])
        };
        let multi = two("");
        let held = Arc::new(two("held").lock().await.unwrap());
        let last = two("last").lock().await.unwrap();
        let mut calls = calls! {
            "lock": |multi| multi.lock();
            "try_lock": |multi| multi.try_lock();
            "try_lock_for": |multi| multi.try_lock_for(SHORT);
            "extend": |held| held.extend(SHORT);
        };
        let release = async move { last.release().await.map(drop) };
        calls.push(Call::new("release", release));
        calls
    }

    /// One of the members is free only after the others are.
    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let other = &others[0];
        let beside = other.read_write_lock("multi-r").write().await.unwrap();
        let held = other.multi_lock(&[&other.lock("multi-b"), &other.fair_lock("multi-f")]);
        let held = held.lock().await.unwrap();
        let multi = members(&clients[0]);
        let call = async move { multi.lock().await?.release().await.map(drop) };
        let free = async move {
            held.release().await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
            beside.release().await
        };
        vec![Wait::new("lock", call, free)]
    }
}

/// A multi-lock with each kind of member.
fn members(client: &Client) -> MultiLock {
    let write = client.read_write_lock("multi-w");
    let read = client.read_write_lock("multi-r");
    client.multi_lock(&[
        &client.lock("multi-a"),
        &client.lock("multi-b"),
        &client.fair_lock("multi-f"),
        &write.write_side(),
        &read.read_side(),
    ])
}

/// The lock over a quorum of servers.
#[derive(Debug)]
pub(super) struct Red;

#[async_trait]
impl Kind for Red {
    fn servers(&self) -> usize {
        3
    }

    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let red = red(clients, "red");
        let held = Arc::new(self::red(clients, "red-held").lock().await.unwrap());
        let last = self::red(clients, "red-last").lock().await.unwrap();
        let mut calls = calls! {
            "lock": |red| red.lock();
            "try_lock": |red| red.try_lock();
            "try_lock_for": |red| red.try_lock_for(SHORT);
            "extend": |held| held.extend(SHORT);
        };
        let release = async move { last.release().await.map(drop) };
        calls.push(Call::new("release", release));
        calls
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let held = red(others, "red-a").lock().await.unwrap();
        let red = red(clients, "red-a");
        let call = async move { red.lock().await?.release().await.map(drop) };
        let free = async move { held.release().await.map(drop) };
        vec![Wait::new("lock", call, free)]
    }
}

fn red(clients: &[Client], name: &str) -> RedLock {
    let locks: Vec<_> = clients.iter().map(|client| client.lock(name)).collect();
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    RedLock::builder(&nodes).durable_nodes().build().unwrap()
}

/// The election.
#[derive(Debug)]
pub(super) struct Election;

#[async_trait]
impl Kind for Election {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let election = clients[0].election("election");
        calls! {
            "lead": |election| election.lead(async |_: &Term| {});
            "leader": |election| election.leader();
            "observe": |election| async move { election.observe().next().await.unwrap() };
            "force_release": |election| election.force_release();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let election = clients[0].election("election-lead");
        let lead = async move { election.lead(async |_: &Term| {}).await };
        let other = others[0].election("election-lead");
        let (begun, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, stops) = (Arc::clone(&begun), Arc::clone(&stop));
        let leading = tokio::spawn(async move {
            let work = async move |_: &Term| {
                begins.notify_one();
                stops.notified().await;
            };
            other.lead(work).await
        });
        begun.notified().await;
        let free = async move {
            stop.notify_one();
            leading.await.unwrap()
        };
        vec![Wait::new("lead", lead, free)]
    }
}
