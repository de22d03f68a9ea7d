//! redlatch, with its defaults: renewed leases of 30 s, fencing tokens, waiters that are called.

use async_trait::async_trait;
use redlatch::{Client, LockGuard};

use super::{Failure, Lock, Session};

pub(super) struct Redlatch {
    client: Client,
}

struct RedlatchLock {
    lock: redlatch::Lock,
    guard: Option<LockGuard>,
}

impl Redlatch {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        Ok(Self { client })
    }
}

/// Connects a client that may wait and hold as much as the workloads ask for.
pub(crate) async fn connect(url: &str) -> Result<Client, Failure> {
    Ok(Client::builder(url).max_waiters(200_000).connect().await?)
}

impl Session for Redlatch {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        Box::new(RedlatchLock {
            lock: self.client.lock(name),
            guard: None,
        })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["evalsha", "eval", "ping", "set", "hello", "subscribe"]
    }
}

#[async_trait]
impl Lock for RedlatchLock {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.guard = Some(self.lock.lock().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        let released = guard.release().await?;
        if released.is_clean() {
            Ok(())
        } else {
            Err(released.to_string().into())
        }
    }
}
