//! A lock of a set of stripes.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::Error;

use super::lock;
use crate::every_kind::{
    hold::Hold,
    kind::{Kind, Object},
    load::Load,
};

/// A lock of a set of stripes.
#[derive(Debug)]
pub(in crate::every_kind) struct Striped;

#[async_trait]
impl Kind for Striped {
    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        lock::get(&stripe(object), lease).await
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        lock::waiters(&stripe(object)).await
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        lock::held(&stripe(object)).await
    }

    async fn work(&self, load: &mut Load) {
        load.crew("striped", 1, &[(&Self as _, 1); 3]);
    }
}

fn stripe(object: &Object) -> redlatch::Lock {
    let stripes = object.party.client.striped_lock(&object.name, 4).unwrap();
    stripes.of("row:1")
}
