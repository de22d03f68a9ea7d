//! redlatch with its defaults: renewed leases of 30 s, fencing tokens, notified waiters. The
//! contenders are the plain lock, and other primitives with one holder or a few holders of a name.

use std::{future::Future, marker::PhantomData, sync::Arc};

use async_trait::async_trait;
use redlatch::{
    Client, Error, FairLock, FairLockGuard, LockGuard, PermitExpirableSemaphore, PermitId,
    ReadGuard, ReadWriteLock, Released, Semaphore, SemaphorePermit, WriteGuard,
    permits::PermitRelease,
};

use super::{Failure, Lock, Session};
use crate::job::PERMITS;

/// A primitive of redlatch, and the way to acquire it.
pub(super) trait Kind: Send + Sync + 'static {
    type Guard: Send;

    fn named(client: &Client, name: &str) -> Self;

    fn take(&self) -> impl Future<Output = Result<Self::Guard, Error>> + Send;

    fn give(guard: Self::Guard) -> impl Future<Output = Result<Released, Error>> + Send;
}

/// A read-write lock that all tasks acquire for writing.
pub(super) struct Writers(ReadWriteLock);

/// A read-write lock that all tasks acquire for reading.
pub(super) struct Readers(ReadWriteLock);

/// A semaphore with one permit.
pub(super) struct Single(Semaphore);

/// A semaphore with one permit that has an id.
pub(super) struct SingleId(Permits);

/// A semaphore with a permit for each task.
pub(super) struct Roomy(Semaphore);

/// A semaphore with a permit for each task. All tasks of a round share one.
pub(super) struct OneRoomy(Semaphore);

/// A semaphore with a permit for each task, whose permits have ids.
pub(super) struct Permits(PermitExpirableSemaphore);

/// A semaphore as [`Permits`]. All tasks of a round share one.
pub(super) struct OnePermits(Permits);

struct Redlatch<K> {
    client: Client,
    kind: PhantomData<fn() -> K>,
}

struct Handle<K: Kind> {
    kind: K,
    guard: Option<K::Guard>,
}

/// Connects a client whose names are of one kind.
pub(super) async fn session<K: Kind>(url: &str) -> Result<Arc<dyn Session>, Failure> {
    Ok(Arc::new(Redlatch::<K> {
        client: connect(url).await?,
        kind: PhantomData,
    }))
}

/// Connects a client with limits for the waiters and holds of all workloads.
pub(crate) async fn connect(url: &str) -> Result<Client, Failure> {
    Ok(Client::builder(url).max_waiters(200_000).connect().await?)
}

impl<K: Kind> Session for Redlatch<K> {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        Box::new(Handle {
            kind: K::named(&self.client, name),
            guard: None,
        })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &[
            "evalsha",
            "eval",
            "asking",
            "ping",
            "set",
            "hello",
            "subscribe",
            "ssubscribe",
        ]
    }
}

#[async_trait]
impl<K: Kind> Lock for Handle<K> {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.guard = Some(self.kind.take().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        let released = K::give(guard).await?;
        if released.is_clean() {
            Ok(())
        } else {
            Err(released.to_string().into())
        }
    }
}

impl Kind for redlatch::Lock {
    type Guard = LockGuard;

    fn named(client: &Client, name: &str) -> Self {
        client.lock(name)
    }

    async fn take(&self) -> Result<LockGuard, Error> {
        self.lock().await
    }

    async fn give(guard: LockGuard) -> Result<Released, Error> {
        guard.release().await
    }
}

impl Kind for FairLock {
    type Guard = FairLockGuard;

    fn named(client: &Client, name: &str) -> Self {
        client.fair_lock(name)
    }

    async fn take(&self) -> Result<FairLockGuard, Error> {
        self.lock().await
    }

    async fn give(guard: FairLockGuard) -> Result<Released, Error> {
        guard.release().await
    }
}

impl Kind for Writers {
    type Guard = WriteGuard;

    fn named(client: &Client, name: &str) -> Self {
        Self(client.read_write_lock(name))
    }

    async fn take(&self) -> Result<WriteGuard, Error> {
        self.0.write().await
    }

    async fn give(guard: WriteGuard) -> Result<Released, Error> {
        guard.release().await
    }
}

impl Kind for Semaphore {
    type Guard = SemaphorePermit;

    fn named(client: &Client, name: &str) -> Self {
        client.semaphore(name).permits_if_unset(PERMITS)
    }

    async fn take(&self) -> Result<SemaphorePermit, Error> {
        self.acquire().await
    }

    async fn give(permit: SemaphorePermit) -> Result<Released, Error> {
        permit.release().await
    }
}

impl Kind for Readers {
    type Guard = ReadGuard;

    fn named(client: &Client, name: &str) -> Self {
        Self(client.read_write_lock(name))
    }

    async fn take(&self) -> Result<ReadGuard, Error> {
        self.0.read().await
    }

    async fn give(guard: ReadGuard) -> Result<Released, Error> {
        guard.release().await
    }
}

impl Kind for Roomy {
    type Guard = SemaphorePermit;

    fn named(client: &Client, name: &str) -> Self {
        Self(client.semaphore(name).permits_if_unset(ROOM))
    }

    async fn take(&self) -> Result<SemaphorePermit, Error> {
        self.0.acquire().await
    }

    async fn give(permit: SemaphorePermit) -> Result<Released, Error> {
        permit.release().await
    }
}

impl Kind for Single {
    type Guard = SemaphorePermit;

    fn named(client: &Client, name: &str) -> Self {
        Self(client.semaphore(name).permits_if_unset(1))
    }

    async fn take(&self) -> Result<SemaphorePermit, Error> {
        self.0.acquire().await
    }

    async fn give(permit: SemaphorePermit) -> Result<Released, Error> {
        permit.release().await
    }
}

impl Kind for SingleId {
    type Guard = (PermitExpirableSemaphore, PermitId);

    fn named(client: &Client, name: &str) -> Self {
        let semaphore = client.permit_expirable_semaphore(name);
        Self(Permits(semaphore.permits_if_unset(1)))
    }

    async fn take(&self) -> Result<Self::Guard, Error> {
        self.0.take().await
    }

    async fn give(guard: Self::Guard) -> Result<Released, Error> {
        Permits::give(guard).await
    }
}

impl Kind for OneRoomy {
    type Guard = SemaphorePermit;

    fn named(client: &Client, name: &str) -> Self {
        Self(client.semaphore(of_round(name)).permits_if_unset(ROOM))
    }

    async fn take(&self) -> Result<SemaphorePermit, Error> {
        self.0.acquire().await
    }

    async fn give(permit: SemaphorePermit) -> Result<Released, Error> {
        permit.release().await
    }
}

impl Kind for Permits {
    type Guard = (PermitExpirableSemaphore, PermitId);

    fn named(client: &Client, name: &str) -> Self {
        let semaphore = client.permit_expirable_semaphore(name);
        Self(semaphore.permits_if_unset(ROOM))
    }

    async fn take(&self) -> Result<Self::Guard, Error> {
        let id = self.0.acquire().await?;
        Ok((self.0.clone(), id))
    }

    async fn give((semaphore, id): Self::Guard) -> Result<Released, Error> {
        Ok(match semaphore.release(&id).await? {
            PermitRelease::Released => Released::Free,
            _ => Released::Unconfirmed,
        })
    }
}

impl Kind for OnePermits {
    type Guard = (PermitExpirableSemaphore, PermitId);

    fn named(client: &Client, name: &str) -> Self {
        Self(Permits::named(client, of_round(name)))
    }

    async fn take(&self) -> Result<Self::Guard, Error> {
        self.0.take().await
    }

    async fn give(guard: Self::Guard) -> Result<Released, Error> {
        Permits::give(guard).await
    }
}

/// Returns the common part of the names of a round.
fn of_round(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(round, _)| round)
}

const ROOM: u32 = 100_000;
