//! A fair lock and a plain one, held together.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{Error, FairLock, Lock, LockInfo, MultiGuard};

use crate::every_kind::{
    hold::{Hold, ReleaseOutcome, guards},
    kind::{Kind, Object},
    load::Load,
};

/// A fair lock and a plain one.
#[derive(Debug)]
pub(in crate::every_kind) struct Multi;

guards! {
    // Each member has its own, and they rise together.
    MultiGuard, |guard| guard.members().iter().map(|held| held.token().as_u64()).min(),
        ReleaseOutcome::of_all;
}

#[async_trait]
impl Kind for Multi {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let (fair, plain) = members(object);
        let multi = object.party.client.multi_lock(&[&plain, &fair]);
        Ok(Box::new(multi.lock().renewed_lease(lease).await?))
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        let first = members(object).0.info().await?;
        Ok(first.map_or(0, |info| info.waiters))
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        let (fair, plain) = members(object);
        let count = |info: Option<LockInfo>| info.map_or(0, |info| info.count);
        let all = count(fair.info().await?) + count(plain.info().await?);
        Ok(u64::from(all))
    }

    async fn work(&self, load: &mut Load) {
        load.crew("multi", 1, &[(&Self as _, 1); 3]);
    }

    fn taken(&self) -> u64 {
        2
    }

    fn handed_over(&self) -> u64 {
        2
    }
}

/// Returns the members in the order in which they are taken.
fn members(object: &Object) -> (FairLock, Lock) {
    let client = &object.party.client;
    let name = |part: &str| format!("{}-{part}", object.name);
    (client.fair_lock(name("fair")), client.lock(name("plain")))
}
