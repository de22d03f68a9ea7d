//! Permits with ids, which nobody renews. There are two.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redlatch::{Error, LossCause, PermitExpirableSemaphore, PermitId, permits::PermitRelease};

use crate::every_kind::{
    hold::{Hold, ReleaseOutcome},
    kind::{Kind, Object},
    load::Load,
};

/// The semaphore whose permits have ids.
#[derive(Debug)]
pub(in crate::every_kind) struct Permits;

#[async_trait]
impl Kind for Permits {
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        take(permits(object), 2, lease).await
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        take(permits(object), 1, lease).await
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(permits(object).totals().await?.waiters)
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        Ok(permits(object).totals().await?.acquired.into())
    }

    async fn delete(&self, object: &Object) -> Result<(), Error> {
        permits(object).delete().await.map(drop)
    }

    async fn work(&self, load: &mut Load) {
        load.crew("permits", 2, &[(&Self as _, 1); 4]);
    }

    fn renews(&self) -> bool {
        false
    }

    fn taken(&self) -> u64 {
        2
    }
}

fn permits(object: &Object) -> PermitExpirableSemaphore {
    let permits = object.party.client.permit_expirable_semaphore(&object.name);
    permits.permits_if_unset(2)
}

async fn take(
    semaphore: PermitExpirableSemaphore,
    permits: u32,
    lease: Duration,
) -> Result<Box<dyn Hold>, Error> {
    let ids = semaphore.acquire_many(permits).lease(lease).await?;
    // Who waited does not know for how long it has them, and asks.
    let (asked, mut left) = (Instant::now(), lease);
    for id in &ids {
        left = semaphore.remaining(id).await?.unwrap_or_default().min(left);
    }
    Ok(Box::new(Ids::new(semaphore, ids, asked, left)))
}

/// Permits with ids, whose holder counts for itself: from before it asked, less the margin of two
/// clocks.
#[derive(Debug)]
struct Ids {
    semaphore: PermitExpirableSemaphore,
    ids: Vec<PermitId>,
    until: Arc<Mutex<Instant>>,
}

impl Ids {
    fn new(
        semaphore: PermitExpirableSemaphore,
        ids: Vec<PermitId>,
        asked: Instant,
        lease: Duration,
    ) -> Self {
        Self {
            semaphore,
            ids,
            until: Arc::new(Mutex::new(asked + trusted(lease))),
        }
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a lease two clocks agree on, each within one per cent.
fn trusted(lease: Duration) -> Duration {
    (lease - lease / 50).saturating_sub(Duration::from_millis(4))
}

#[async_trait]
impl Hold for Ids {
    fn believed(&self) -> bool {
        Instant::now() < self.until()
    }

    fn left(&self) -> Option<Duration> {
        Some(self.until().saturating_duration_since(Instant::now()))
    }

    fn renews(&self) -> bool {
        false
    }

    fn told(&self) -> BoxFuture<'static, LossCause> {
        let until = Arc::clone(&self.until);
        Box::pin(async move {
            loop {
                let last = *until.lock().unwrap_or_else(PoisonError::into_inner);
                if last <= Instant::now() {
                    return LossCause::Expired;
                }
                tokio::time::sleep_until(last.into()).await;
            }
        })
    }

    async fn prolong(&self, span: Duration) -> Result<(), Error> {
        for id in &self.ids {
            let asked = Instant::now();
            self.semaphore.extend(id, span).await?;
            let until = self.until().max(asked + trusted(span));
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
        Ok(())
    }

    async fn give_back(self: Box<Self>) -> Result<ReleaseOutcome, Error> {
        let answers = self.semaphore.release_all(&self.ids).await?;
        let outcome = |answer: &PermitRelease| match answer {
            PermitRelease::Released => ReleaseOutcome::Ended,
            PermitRelease::Unconfirmed => ReleaseOutcome::Unsure,
            _ => ReleaseOutcome::WasOver,
        };
        let other = answers
            .iter()
            .map(outcome)
            .find(|one| *one != ReleaseOutcome::Ended);
        Ok(other.unwrap_or(ReleaseOutcome::Ended))
    }
}
