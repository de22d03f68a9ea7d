//! Other kinds of redlatch than the plain lock.

use async_trait::async_trait;
use redlatch::{
    Client, FairLock, FairLockGuard, ReadWriteLock, Semaphore, SemaphorePermit, WriteGuard,
};

use super::{Failure, Lock, Session, connect_redlatch};

/// A lock that is served in the order of arrival.
pub(super) struct Fair {
    client: Client,
}

/// A read-write lock of which everybody wants to write.
pub(super) struct Writers {
    client: Client,
}

/// A semaphore of 8 permits.
pub(super) struct Permits {
    client: Client,
}

struct FairHandle {
    lock: FairLock,
    guard: Option<FairLockGuard>,
}

struct WriterHandle {
    lock: ReadWriteLock,
    guard: Option<WriteGuard>,
}

struct PermitsHandle {
    semaphore: Semaphore,
    permit: Option<SemaphorePermit>,
}

impl Fair {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = connect_redlatch(url).await?;
        Ok(Self { client })
    }
}

impl Writers {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = connect_redlatch(url).await?;
        Ok(Self { client })
    }
}

impl Permits {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = connect_redlatch(url).await?;
        Ok(Self { client })
    }
}

impl Session for Fair {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        let lock = self.client.fair_lock(name);
        Box::new(FairHandle { lock, guard: None })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["evalsha", "eval"]
    }
}

impl Session for Writers {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        let lock = self.client.read_write_lock(name);
        Box::new(WriterHandle { lock, guard: None })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["evalsha", "eval"]
    }
}

impl Session for Permits {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        Box::new(PermitsHandle {
            semaphore: self.client.semaphore(name).permits_if_unset(PERMITS),
            permit: None,
        })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["evalsha", "eval"]
    }
}

#[async_trait]
impl Lock for FairHandle {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.guard = Some(self.lock.lock().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        guard.release().await?;
        Ok(())
    }
}

#[async_trait]
impl Lock for WriterHandle {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.guard = Some(self.lock.write().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        guard.release().await?;
        Ok(())
    }
}

#[async_trait]
impl Lock for PermitsHandle {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.permit = Some(self.semaphore.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let permit = self.permit.take().ok_or("nothing is held")?;
        permit.release().await?;
        Ok(())
    }
}

const PERMITS: u32 = 8;
