//! Jobs that run once per slot, elections and fences.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redlatch::{Client, Term, Token, fence::FencedScript, once::JobRun};
use tokio::sync::Notify;

use super::{Call, Kind, LONG, Wait, calls, waits};

/// Jobs that run once per slot. No call waits for another run, and `serve` looks again by itself.
#[derive(Debug)]
pub(super) struct Jobs;

#[async_trait]
impl Kind for Jobs {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let day = Duration::from_secs(24 * 60 * 60);
        let job = clients[0].once("once").every(day).retries(100);
        calls! {
            "run": |job| job.run(async |_: &JobRun| Ok::<_, String>(()));
            "last": |job| job.last();
            "holder": |job| job.holder();
            "reset": |job| job.reset();
        }
    }
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
        waits! { "lead": election.lead(async |_: &Term| {}) => free; }
    }
}

/// The fence. Nobody waits for one.
#[derive(Debug)]
pub(super) struct Fence;

#[async_trait]
impl Kind for Fence {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let fence = clients[0].fence("redlatch:fence-data");
        let token = Token::from_u64(1);
        let script = FencedScript::new("return ARGV[1]");
        calls! {
            "set": |fence| fence.set(token, "a");
            "set_for": |fence| fence.set_for(token, "a", LONG);
            "delete": |fence| fence.delete(token);
            "hset": |fence| fence.hset(token, &[("f", "v")]);
            "eval": |fence| fence.eval(token, script, &[], &[b"x"]);
            "raise": |fence| fence.raise(token);
            "mark": |fence| fence.mark();
            "reset": |fence| fence.reset();
        }
    }
}
