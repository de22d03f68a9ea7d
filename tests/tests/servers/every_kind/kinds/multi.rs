//! A fair lock and a plain one, held together.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{Error, FairLock, Lock, LockInfo};
use redlatch_tests::hold::{Hold, held_together};

use crate::every_kind::{
    kind::{Kind, Object},
    load::Load,
};

/// A fair lock and a plain one.
#[derive(Debug)]
pub(in crate::every_kind) struct Multi;

#[async_trait]
impl Kind for Multi {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        let (fair, plain) = members(object);
        let multi = object.party.client.multi_lock(&[&plain, &fair]);
        let guard = multi.lock().renewed_lease(lease).await?;
        // Each member has its own token, and they rise together.
        let tokens = guard.members().iter().map(|held| held.token().as_u64());
        let fence = tokens.min();
        Ok(held_together(guard, fence))
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
