//! A release that waits for its answer, and the local waiter that asks right behind it.

use std::{sync::Arc, time::Duration};

use super::LocalQueues;
use crate::{
    Owner,
    base::{
        owner::AttemptId,
        primitive::{Primitive, ReleaseRequest, Token},
        script::ScriptCall,
    },
    protocol::{name::Key, time::Moment},
};

/// A release or undo of one attempt that the server has not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) owner: Owner,
    pub(crate) attempt: AttemptId,
    pub(crate) token: Option<Token>,
    pub(crate) serial: Option<u64>,
    /// The last server time at which a request of the attempt may act, if the server has to refuse
    /// copies from now on.
    pub(crate) void_by: Option<u64>,
    /// Whether requests of the attempt may be executed yet.
    pub(crate) copies: bool,
    pub(crate) address: String,
    /// Whether it undoes an abandoned acquisition, and does not release a delivered hold.
    pub(crate) undo: bool,
    /// For a hold that can be divided: the units that remain, and the units that are permanently
    /// gone.
    pub(crate) left: u32,
    pub(crate) forgotten: u32,
    /// The local waiter that sends its request right behind it.
    pub(super) next_waiter: Option<Box<NextWaiter>>,
    /// The time at which the lease has certainly ended it on the server.
    pub(crate) give_up_at: Moment,
}

impl PendingRelease {
    /// Builds the call of this release.
    pub(super) fn call(&self, retention: Duration) -> ScriptCall {
        self.primitive.release(&ReleaseRequest {
            owner: &self.owner,
            attempt: &self.attempt,
            token: self.token,
            serial: self.serial,
            void_by: self.void_by,
            retention,
            address: &self.address,
            left: self.left,
            forgotten: self.forgotten,
        })
    }
}

/// The waiter that sends its request right behind a release.
#[derive(Clone, Debug)]
pub(crate) struct NextWaiter {
    pub(super) local_queues: Arc<LocalQueues>,
    pub(super) key: Key,
    pub(super) id: u64,
}

impl NextWaiter {
    /// Makes the waiter ask the server.
    pub(super) fn prompt(&self) {
        self.local_queues.prompt(&self.key, self.id);
    }
}
