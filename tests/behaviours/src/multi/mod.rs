//! Locks over several: of one server or more, and over a quorum of servers.

pub mod mixes;
pub mod multi_lock;
pub mod red_lock;
pub mod striped;

use crate::prelude::*;

/// Several servers that know nothing of each other.
#[derive(Debug)]
pub struct Fleet(pub Vec<Backend>);

impl Fleet {
    pub fn embedded(count: usize) -> Self {
        Self((0..count).map(|_| Backend::embedded()).collect())
    }

    pub fn real(binary: &ServerBinary, count: usize) -> Self {
        Self((0..count).map(|_| Backend::real(binary)).collect())
    }

    pub async fn clients(&self) -> Vec<Client> {
        join_all(self.0.iter().map(Backend::client)).await
    }

    pub async fn pass(&self, span: Duration) {
        self.0[0].pass(span).await;
    }

    /// Checks that nobody holds anything anywhere, and that these clients know of nothing.
    pub async fn assert_nothing_left(&self, clients: &[Client]) {
        assert_all_empty(clients).await;
        for backend in &self.0 {
            backend.assert_only_counters_left();
        }
    }
}
