//! The plain lock.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{Error, Held, LockGuard};

use crate::every_kind::{
    hold::{Hold, ReleaseOutcome, guards},
    kind::{Kind, Object},
    load::Load,
};

/// The plain lock.
#[derive(Debug)]
pub(in crate::every_kind) struct Lock;

guards! {
    LockGuard, |guard| Some(Held::token(guard).as_u64()), ReleaseOutcome::of_one;
}

#[async_trait]
impl Kind for Lock {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        get(&lock(object), lease).await
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        waiters(&lock(object)).await
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        held(&lock(object)).await
    }

    async fn work(&self, load: &mut Load) {
        load.crew("lock", 1, &[(&Self as _, 1); 3]);
    }
}

fn lock(object: &Object) -> redlatch::Lock {
    object.party.client.lock(&object.name)
}

/// Gets this lock.
pub(super) async fn get(lock: &redlatch::Lock, lease: Duration) -> Result<Box<dyn Hold>, Error> {
    Ok(Box::new(lock.lock().renewed_lease(lease).await?))
}

/// Returns how many the server says wait for this lock.
pub(super) async fn waiters(lock: &redlatch::Lock) -> Result<u64, Error> {
    Ok(lock.info().await?.map_or(0, |info| info.waiters))
}

/// Returns how many guards the server says there are of this lock.
pub(super) async fn held(lock: &redlatch::Lock) -> Result<u64, Error> {
    Ok(lock.info().await?.map_or(0, |info| info.count.into()))
}
