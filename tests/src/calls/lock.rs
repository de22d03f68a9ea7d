//! The plain lock.

use std::sync::Arc;

use async_trait::async_trait;
use redlatch::Client;

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
