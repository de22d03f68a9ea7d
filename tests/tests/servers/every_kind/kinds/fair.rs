//! The fair lock.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{Error, FairLock, FairLockGuard, Held};

use crate::every_kind::{
    hold::{Hold, ReleaseOutcome, guards},
    kind::{Kind, Object},
    load::Load,
};

/// The fair lock.
#[derive(Debug)]
pub(in crate::every_kind) struct Fair;

guards! {
    FairLockGuard, |guard| Some(Held::token(guard).as_u64()), ReleaseOutcome::of_one;
}

#[async_trait]
impl Kind for Fair {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        Ok(Box::new(fair(object).lock().renewed_lease(lease).await?))
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(fair(object).info().await?.map_or(0, |info| info.waiters))
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let info = fair(object).info().await?;
        Ok(info.map_or(0, |info| info.count.into()))
    }

    async fn work(&self, load: &mut Load) {
        load.crew("fair", 1, &[(&Self as _, 1); 3]);
    }
}

fn fair(object: &Object) -> FairLock {
    object.party.client.fair_lock(&object.name)
}
