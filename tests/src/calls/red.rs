//! The lock over a quorum of servers.

use std::sync::Arc;

use async_trait::async_trait;
use redlatch::{Client, Lockable, RedLock};

use super::{Call, Kind, SHORT, Wait, calls};

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
