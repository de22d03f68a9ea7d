//! Permits with ids.

use async_trait::async_trait;
use redlatch::Client;

use super::{Call, Kind, SHORT, Wait, calls};

/// The semaphore whose permits have ids.
#[derive(Debug)]
pub(super) struct Permits;

#[async_trait]
impl Kind for Permits {
    async fn calls(&self, clients: &[Client]) -> Vec<Call> {
        let permits = clients[0].permit_expirable_semaphore("permits");
        permits.set_permits(9).await.unwrap();
        let id = permits.acquire().await.unwrap();
        calls! {
            "acquire": |permits| permits.acquire();
            "acquire_many": |permits| permits.acquire_many(2);
            "extend": |permits, id| permits.extend(&id, SHORT);
            "remaining": |permits, id| permits.remaining(&id);
            "release": |permits, id| permits.release(&id);
            "holders": |permits| permits.holders();
            "delete": |permits| permits.delete();
        }
    }

    async fn waits(&self, others: &[Client], clients: &[Client]) -> Vec<Wait> {
        let of = |client: &Client| {
            let permits = client.permit_expirable_semaphore("permits-a");
            permits.permits_if_unset(2)
        };
        let (theirs, mine) = (of(&others[0]), of(&clients[0]));
        let held = theirs.acquire_many(2).await.unwrap();
        let call = async move {
            let ids = mine.acquire_many(2).await?;
            mine.release_all(&ids).await
        };
        let free = async move {
            for id in &held {
                theirs.release(id).await?;
            }
            Ok(())
        };
        vec![Wait::new("acquire_many", call, free)]
    }
}
