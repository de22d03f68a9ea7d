//! The calls of a session that go together with calls of other tasks.

use std::convert::Infallible;

use super::{Limit, Session};
use crate::{
    base::{
        merge::{MergedCall, Slots},
        script::{CallOutcome, ScriptCall},
    },
    net::batcher::{JoinedReply, UnderWay},
    runtime::ServerError,
};

impl Session {
    /// Sends the calls of tasks that have joined, until dropped.
    pub(in crate::net) async fn send_joined(&self) -> Infallible {
        let observe = |millis| self.observe(millis);
        self.batcher
            .run(self.conn.as_ref(), &self.world, observe)
            .await
    }

    /// Counts a call that may merge with others, until the returned guard is dropped.
    pub(in crate::net) fn begin_call(&self) -> UnderWay<'_> {
        self.batcher.begin()
    }

    /// Sends `call` together with calls of other tasks. Returns `None` if it has to be sent by
    /// itself.
    pub(in crate::net) async fn join(
        &self,
        call: &ScriptCall,
        act_before: u64,
        limit: Limit,
    ) -> Option<CallOutcome> {
        if self.is_contended(call) {
            return None;
        }
        let joined = self.batcher.join(call, act_before)?;
        let replied = |reply: &JoinedReply| !matches!(reply, JoinedReply::Failed(_));
        match self.within(limit, joined, replied).await {
            Ok(JoinedReply::Replied(value)) => Some(CallOutcome::Replied(value)),
            Ok(JoinedReply::Alone) => None,
            Ok(JoinedReply::Failed(outcome)) | Err(outcome) => Some(CallOutcome::of(outcome)),
        }
    }

    /// Records that the server refused a common call.
    pub(in crate::net) fn refused_together(&self, error: &ServerError, merged: &MergedCall) {
        self.batcher.refused(&self.world, error, merged);
    }

    /// Returns whether the keys of one call must share a slot.
    pub(in crate::net) fn slots(&self) -> Slots {
        self.batcher.slots()
    }

    /// Tells whether `call` should be sent by itself, because it was a moment ago.
    pub(in crate::net) fn is_contended(&self, call: &ScriptCall) -> bool {
        let key = call.keys().next().unwrap_or_default();
        self.world.contended.contains(key, self.world.now())
    }

    /// Records that `call` should be sent by itself for a while.
    pub(in crate::net) fn contended(&self, call: &ScriptCall) {
        let key = call.keys().next().unwrap_or_default();
        self.world.contended.add(key, self.world.now());
    }
}
