//! The fair lock.

use async_trait::async_trait;
use futures_util::future::try_join;
use redlatch::Client;

use super::{Call, Kind, LONG, SHORT, Wait, calls};

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
