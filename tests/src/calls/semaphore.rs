//! The semaphore.

use std::sync::Arc;

use async_trait::async_trait;
use redlatch::Client;

use super::{Call, Kind, LONG, SHORT, Wait, calls};

/// The semaphore.
#[derive(Debug)]
pub(super) struct Semaphore;

#[async_trait]
impl Kind for Semaphore {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let semaphore = clients[0].semaphore("semaphore");
        semaphore.set_permits(9).await.unwrap();
        let held = clients[0].semaphore("semaphore-held").permits_if_unset(9);
        let last = held.acquire_many(2).await.unwrap();
        let held = Arc::new(held.acquire_many(2).await.unwrap());
        let mut calls = calls! {
            "acquire": |semaphore| semaphore.acquire();
            "try_acquire": |semaphore| semaphore.try_acquire();
            "try_acquire_for": |semaphore| semaphore.try_acquire_for(SHORT);
            "set_permits": |semaphore| semaphore.set_permits(1);
            "try_set_permits": |semaphore| semaphore.try_set_permits(1);
            "add_permits": |semaphore| semaphore.add_permits(1);
            "drain_permits": |semaphore| semaphore.drain_permits();
            "available_permits": |semaphore| semaphore.available_permits();
            "permits": |semaphore| semaphore.permits();
            "totals": |semaphore| semaphore.totals();
            "holders": |semaphore| semaphore.holders();
            "delete": |semaphore| semaphore.delete();
            "extend": |held| held.extend(SHORT);
        };
        calls.push(Call::new("release", async move { last.release().await }));
        calls
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client, name: &str| {
            let semaphore = client.semaphore(format!("semaphore-{name}"));
            semaphore.permits_if_unset(3)
        };
        let held_a = of(&others[0], "a").acquire_many(2).await.unwrap();
        let held_b = of(&others[0], "b").acquire_many(3).await.unwrap();
        let (a, b) = (of(&clients[0], "a"), of(&clients[0], "b"));
        vec![
            Wait::new(
                "acquire_many",
                async move { a.acquire_many(3).await?.release().await },
                async move { held_a.release().await },
            ),
            Wait::new(
                "try_acquire_for",
                async move { b.try_acquire_for(LONG).await?.unwrap().release().await },
                async move { held_b.release().await },
            ),
        ]
    }
}
