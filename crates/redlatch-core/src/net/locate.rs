//! Lookups of the masters for pub/sub connections.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Router, dialer::Locate};
use crate::runtime::Address;

/// Any server that serves slots, a different one for each connection.
#[derive(Debug)]
pub(super) struct AnyMaster {
    pub(super) router: Arc<Router>,
    /// The number of connections.
    pub(super) round: u32,
}

#[async_trait]
impl Locate for AnyMaster {
    async fn locate(&mut self) -> Address {
        self.round = self.round.wrapping_add(1);
        self.router.any_master(self.round).await
    }
}

/// The server that serves one slot.
#[derive(Debug)]
pub(super) struct MasterOf {
    pub(super) router: Arc<Router>,
    pub(super) slot: u16,
}

#[async_trait]
impl Locate for MasterOf {
    async fn locate(&mut self) -> Address {
        self.router.master_of(self.slot).await
    }
}
