//! The read-write lock.

use std::sync::Arc;

use async_trait::async_trait;
use redlatch::{Client, ReadWriteLock};

use super::{Call, Kind, SHORT, Wait, calls};

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
