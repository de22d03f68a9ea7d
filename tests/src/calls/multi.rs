//! Several locks as one.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redlatch::{Client, MultiLock};

use super::{Call, Kind, SHORT, Wait, calls};

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
