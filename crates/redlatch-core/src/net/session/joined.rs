//! The calls of a session that go together with calls of other tasks.

use std::convert::Infallible;

use super::Session;
use crate::{
    base::{
        merge::{MergedCall, Slots},
        script::{CallOutcome, Merging, ScriptCall},
    },
    net::{
        batcher::{JoinedReply, UnderWay},
        request::Request,
    },
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
        merging: &'static Merging,
        request: &Request<'_>,
    ) -> Option<CallOutcome> {
        let joined = self.batcher.join(call, merging, request.act_before)?;
        let replied = |reply: &JoinedReply| !matches!(reply, JoinedReply::Failed(_));
        match self.within(request.limit, joined, replied).await {
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

    /// Returns how `call` merges with others now. `None` if it should be sent by itself.
    pub(in crate::net) fn merging(&self, call: &ScriptCall) -> Option<&'static Merging> {
        let merging = call.merging()?;
        let key = call.keys().next().unwrap_or_default();
        if self.world.contended.contains(key, self.world.now()) {
            call.crowding()
        } else {
            Some(merging)
        }
    }

    /// Records that the object of `call` is contended for a while.
    pub(in crate::net) fn contended(&self, call: &ScriptCall) {
        let key = call.keys().next().unwrap_or_default();
        self.world.contended.add(key, self.world.now());
    }
}
