//! The plain lock.

pub mod behaviour;
pub mod loss;
pub mod waiting;

use redlatch::{Lock, LockGuard};
use tokio::task::JoinHandle;

/// Starts to wait in a task of its own.
pub fn waiting(lock: Lock) -> JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.lock().await.unwrap() })
}
