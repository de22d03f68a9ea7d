//! Locks: plain, fair, read-write, several as one, and over a quorum of servers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::try_join;
use redlatch::{Client, Lockable, MultiLock, ReadWriteLock, RedLock};

use super::{Call, Kind, LONG, SHORT, Wait, calls, waits};

/// The plain lock.
#[derive(Debug)]
pub(super) struct Lock;

#[async_trait]
impl Kind for Lock {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let (lock, owner) = (clients[0].lock("lock"), clients[0].owner());
        let held = Arc::new(clients[0].lock("lock-held").lock().await.unwrap());
        let last = clients[0].lock("lock-last").lock().await.unwrap();
        calls! {
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
            last: "release": last.release();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client, name: &str| client.lock(format!("lock-{name}"));
        let held = of(&others[0], "a").lock().await.unwrap();
        let held_too = of(&others[0], "b").lock().await.unwrap();
        let (a, b) = (of(&clients[0], "a"), of(&clients[0], "b"));
        waits! {
            "lock": a.lock().await?.release() => held.release();
            "try_lock_for": b.try_lock_for(LONG).await?.unwrap().release() => held_too.release();
        }
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
        calls! {
            "lock": |lock| lock.lock();
            "try_lock": |lock| lock.try_lock();
            "try_lock_for": |lock| lock.try_lock_for(SHORT);
            "position": |lock, owner| lock.position(&owner);
            "waiters": |lock| async { lock.waiters().next().await.transpose() };
            last: "release": last.release();
        }
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
        waits! { "lock and try_lock_for": both => held.release(); }
    }
}

/// The read-write lock.
#[derive(Debug)]
pub(super) struct ReadWrite;

#[async_trait]
impl Kind for ReadWrite {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let (lock, owner) = (sides(&clients[0], "free"), clients[0].owner());
        let upgradable = sides(&clients[0], "held").upgradable_read();
        let upgradable = Arc::new(upgradable.await.unwrap());
        let write = sides(&clients[0], "last").write().await.unwrap();
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
        let upgrade = async move { upgradable.upgrade().await };
        let downgrade = async move { write.downgrade().await };
        calls.push(Call::of_hold("upgrade", upgrade));
        calls.push(Call::of_hold("downgrade", downgrade));
        calls
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let (other, client) = (&others[0], &clients[0]);
        let held_a = sides(other, "a").write().await.unwrap();
        let held_b = sides(other, "b").read().await.unwrap();
        let held_c = sides(other, "c").upgradable_read().await.unwrap();
        let look = sides(client, "d").upgradable_read().await.unwrap();
        let held_d = sides(other, "d").read().await.unwrap();
        let (a, b, c) = (sides(client, "a"), sides(client, "b"), sides(client, "c"));
        let upgrade = async move {
            let read = look.upgrade().await?.downgrade().await?;
            read.release().await?;
            look.release().await
        };
        waits! {
            "read": a.read().await?.release() => held_a.release();
            "write": b.write().await?.release() => held_b.release();
            "upgradable_read": c.upgradable_read().await?.release() => held_c.release();
            "upgrade": upgrade => held_d.release();
        }
    }
}

fn sides(client: &Client, name: &str) -> ReadWriteLock {
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
        calls! {
            "lock": |multi| multi.lock();
            "try_lock": |multi| multi.try_lock();
            "try_lock_for": |multi| multi.try_lock_for(SHORT);
            "extend": |held| held.extend(SHORT);
            last: "release": last.release();
        }
    }

    /// One of the members is free only after the others are.
    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let other = &others[0];
        let beside = other.read_write_lock("multi-r").write().await.unwrap();
        let held = other.multi_lock(&[&other.lock("multi-b"), &other.fair_lock("multi-f")]);
        let held = held.lock().await.unwrap();
        let multi = members(&clients[0]);
        let free = async move {
            held.release().await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
            beside.release().await
        };
        waits! { "lock": multi.lock().await?.release() => free; }
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
        let lock = red(clients, "red");
        let held = Arc::new(red(clients, "red-held").lock().await.unwrap());
        let last = red(clients, "red-last").lock().await.unwrap();
        calls! {
            "lock": |lock| lock.lock();
            "try_lock": |lock| lock.try_lock();
            "try_lock_for": |lock| lock.try_lock_for(SHORT);
            "extend": |held| held.extend(SHORT);
            last: "release": last.release();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let held = red(others, "red-a").lock().await.unwrap();
        let lock = red(clients, "red-a");
        waits! { "lock": lock.lock().await?.release() => held.release(); }
    }
}

fn red(clients: &[Client], name: &str) -> RedLock {
    let locks: Vec<_> = clients.iter().map(|client| client.lock(name)).collect();
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    RedLock::builder(&nodes).durable_nodes().build().unwrap()
}
