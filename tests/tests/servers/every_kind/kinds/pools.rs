//! Pools of two permits: the semaphore, and the one whose permits have ids, which nobody renews.

use redlatch::PermitExpirableSemaphore;
use redlatch_tests::hold::{Ids, held};

use crate::every_kind::prelude::*;

/// The semaphore.
#[derive(Debug)]
pub(in crate::every_kind) struct Semaphore;

#[async_trait]
impl Kind for Semaphore {
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let permits = semaphore(object).acquire_many(2);
        Ok(held(permits.renewed_lease(lease).await?))
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let permit = semaphore(object).acquire();
        Ok(held(permit.renewed_lease(lease).await?))
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(semaphore(object).totals().await?.waiters)
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        Ok(semaphore(object).totals().await?.acquired.into())
    }

    async fn delete(&self, object: &Object) -> Result<(), Error> {
        semaphore(object).delete().await.map(drop)
    }

    async fn work(&self, load: &mut Load) {
        load.crew("semaphore", 2, &[(&Self as _, 1); 4]);
    }

    fn taken(&self) -> u64 {
        2
    }
}

fn semaphore(object: &Object) -> redlatch::Semaphore {
    let semaphore = object.party.client.semaphore(&object.name);
    semaphore.permits_if_unset(2)
}

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
    Ok(Box::new(Ids::look(semaphore, ids).await?))
}
