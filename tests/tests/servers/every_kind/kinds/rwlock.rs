//! The read-write lock: each side is a kind.

use std::time::Duration;

use async_trait::async_trait;
use redlatch::{Error, ReadWriteLock};
use redlatch_tests::hold::{Hold, held};

use crate::every_kind::{
    kind::{Kind, Object},
    load::Load,
};

/// A writer that waits for a reader.
#[derive(Debug)]
pub(in crate::every_kind) struct Writer;

/// A reader that waits for a writer.
#[derive(Debug)]
pub(in crate::every_kind) struct Reader;

#[async_trait]
impl Kind for Writer {
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        read(object, lease).await
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        write(object, lease).await
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(sides(object).info().await?.waiting_writers)
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        guards(object).await
    }

    /// Works together with readers.
    async fn work(&self, load: &mut Load) {
        let (write, read) = ((&Self as _, 10), (&Reader as _, 1));
        load.crew("sides", 10, &[write, write, read, read, read]);
    }
}

#[async_trait]
impl Kind for Reader {
    async fn take(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        write(object, lease).await
    }

    async fn get(&self, object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
        read(object, lease).await
    }

    async fn waiters(&self, object: &Object) -> Result<u64, Error> {
        Ok(sides(object).info().await?.waiting_readers)
    }

    async fn held(&self, object: &Object) -> Result<u64, Error> {
        guards(object).await
    }

    async fn work(&self, _: &mut Load) {}

    /// A reader has the token of the last write.
    fn follows(&self, before: Option<u64>, after: Option<u64>) -> bool {
        after >= before
    }
}

fn sides(object: &Object) -> ReadWriteLock {
    object.party.client.read_write_lock(&object.name)
}

async fn read(object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
    Ok(held(sides(object).read().renewed_lease(lease).await?))
}

async fn write(object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
    Ok(held(sides(object).write().renewed_lease(lease).await?))
}

async fn guards(object: &Object) -> Result<u64, Error> {
    let holders = sides(object).holders().await?;
    Ok(holders.iter().map(|holder| u64::from(holder.count)).sum())
}
