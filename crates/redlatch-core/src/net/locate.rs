//! Finds the masters that pub/sub connections go to.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Router, dialer::Locate};
use crate::runtime::Address;

/// A server that is in charge of something, another one each time.
#[derive(Debug)]
pub(super) struct AnyMaster {
    pub(super) router: Arc<Router>,
    /// Counts the connections.
    pub(super) round: u32,
}

#[async_trait]
impl Locate for AnyMaster {
    async fn locate(&mut self) -> Address {
        self.round = self.round.wrapping_add(1);
        self.router.any_master(self.round).await
    }
}

/// The server that is in charge of one slot.
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
