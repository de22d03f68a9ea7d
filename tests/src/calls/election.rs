//! The election.

use std::sync::Arc;

use async_trait::async_trait;
use redlatch::{Client, Term};
use tokio::sync::Notify;

use super::{Call, Kind, Wait, calls};

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
