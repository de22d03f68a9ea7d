//! The crate `rslock`: Redlock over one server. It polls; its pause is set to the average pause of
//! [`polling`](super::raw::polling).

use std::time::Duration;

use async_trait::async_trait;
use rslock::{LockGuard, LockManager};

use super::{Failure, LEASE, Lock, SETTING, Session};

struct RslockLock {
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
}

/// Names one server. The first lock connects.
pub(super) fn session(url: &str) -> Session {
    let mut manager = LockManager::new(vec![url]);
    manager.set_retry(u32::MAX, Duration::from_millis(20));
    Session::new(SETTING, move |name| RslockLock {
        manager: manager.clone(),
        name: name.to_owned(),
        guard: None,
    })
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
