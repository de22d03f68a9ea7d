//! The crate `rslock`: Redlock over one server. It polls; its pause is set to the average pause of
//! [`polling`](super::polling).

use std::time::Duration;

use async_trait::async_trait;
use rslock::{LockGuard, LockManager};

use super::{Failure, LEASE, Lock, Session};

pub(super) struct Rslock {
    manager: LockManager,
}

struct RslockLock {
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
}

impl Rslock {
    pub(super) fn connect(url: &str) -> Self {
        let mut manager = LockManager::new(vec![url]);
        manager.set_retry(u32::MAX, Duration::from_millis(20));
        Self { manager }
    }
}

impl Session for Rslock {
    fn lock(&self, name: &str) -> Box<dyn Lock> {
        Box::new(RslockLock {
            manager: self.manager.clone(),
            name: name.to_owned(),
            guard: None,
        })
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["set", "evalsha", "eval", "script|load"]
    }
}

#[async_trait]
impl Lock for RslockLock {
    async fn acquire(&mut self) -> Result<(), Failure> {
        self.guard = Some(self.manager.acquire(&*self.name, LEASE).await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Failure> {
        let guard = self.guard.take().ok_or("nothing is held")?;
        guard.release().await;
        Ok(())
    }
}
