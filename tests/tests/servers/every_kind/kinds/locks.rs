//! Locks that one holds at a time: each is a lock with the call that looks at it.

use redlatch::compat;
use redlatch_tests::hold::held;

use crate::every_kind::prelude::*;

/// Makes a kind of each lock. What its look says is the number of guards and, where the server
/// knows them, of waiters.
macro_rules! locks {
    ($(
        $(#[$doc:meta])* $kind:ident, $stem:literal, |$object:ident| $lock:expr,
        held: |$held:ident| $count:expr, queues: $queues:literal
        $(, waiters: |$info:ident| $waiters:expr)?;
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(in crate::every_kind) struct $kind;

        #[async_trait]
        impl Kind for $kind {
            async fn get(&self, $object: &Object, lease: Duration) -> Result<Box<dyn Hold>, Error> {
                Ok(held($lock.lock().renewed_lease(lease).await?))
            }

            async fn held(&self, $object: &Object) -> Result<u64, Error> {
                Ok($lock.info().await?.map_or(0, |$held| $count.into()))
            }

            $(async fn waiters(&self, $object: &Object) -> Result<u64, Error> {
                Ok($lock.info().await?.map_or(0, |$info| $waiters))
            })?

            async fn work(&self, load: &mut Load) {
                load.crew($stem, 1, &[(&Self as _, 1); 3]);
            }

            fn queues(&self) -> bool {
                $queues
            }
        }
    )*};
}

locks! {
    /// The plain lock.
    Lock, "lock", |object| object.party.client.lock(&object.name),
    held: |info| info.count, queues: true, waiters: |info| info.waiters;

    /// The fair lock.
    Fair, "fair", |object| object.party.client.fair_lock(&object.name),
    held: |info| info.count, queues: true, waiters: |info| info.waiters;

    /// A lock of a set of stripes.
    Striped, "striped",
    |object| object.party.client.striped_lock(&object.name, 4).unwrap().of("row:1"),
    held: |info| info.count, queues: true, waiters: |info| info.waiters;

    /// The lock of redis-py and others: one value.
    SetNx, "setnx", |object| compat::SetNx::new(&object.party.client, &object.name),
    held: |_info| 1_u32, queues: false;

    /// The lock of Redisson.
    Redisson, "redisson", |object| compat::Redisson::new(&object.party.client, &object.name),
    held: |info| info.count, queues: false;
}
