//! The calls of a session that go together with calls of other tasks.

use std::convert::Infallible;

use super::Session;
use crate::{
    base::{
        merge::{MergedCall, Slots},
        script::{CallOutcome, ScriptCall},
    },
    net::{
        Checked, Limit,
        batcher::{Joined, JoinedReply, UnderWay},
    },
    protocol::{remains::Effect, time::Moment},
    runtime::ServerError,
};

impl Session {
    /// Sends the calls of tasks that have joined, until dropped.
    pub(in crate::net) async fn send_joined(&self) -> Infallible {
        let observe = |now, millis| self.observe_at(now, millis);
        self.batcher
            .run(self.conn.as_ref(), &self.world, observe)
            .await
    }

    /// Counts a call that may merge with others, until the returned guard is dropped.
    pub(in crate::net) fn begin_call(&self) -> UnderWay<'_> {
        self.batcher.begin()
    }

    /// Lets `call` go together with calls of other tasks. Returns `None` if it has to be sent by
    /// itself. Otherwise [`joined`](Self::joined) returns its outcome; the call itself is not needed
    /// any more.
    pub(in crate::net) fn join(&self, call: &ScriptCall, act_before: u64) -> Option<Joined> {
        self.batcher.join(call, act_before)
    }

    /// Waits for the outcome of a call that has joined others. The error is the effect of the
    /// list on a call that has to be sent by itself.
    pub(in crate::net) async fn joined(
        &self,
        joined: Joined,
        limit: Limit,
        checked: Checked,
    ) -> Result<CallOutcome, Effect> {
        let replied = |(reply, at): &(JoinedReply, Moment)| {
            (!matches!(reply, JoinedReply::Failed(_))).then_some(*at)
        };
        match self.within(limit, checked, joined, replied).await {
            Ok((JoinedReply::Replied(value), _)) => Ok(CallOutcome::Replied(value)),
            Ok((JoinedReply::Alone(effect), _)) => Err(effect),
            Ok((JoinedReply::Failed(outcome), _)) | Err(outcome) => Ok(CallOutcome::of(outcome)),
        }
    }

    /// Records that the server refused a list, or that the reply does not have a line for each
    /// entry.
    pub(in crate::net) fn refused_together(
        &self,
        error: Option<&ServerError>,
        merged: &MergedCall,
    ) {
        self.batcher.refused(&self.world, error, merged);
    }

    /// Reads the client's clock.
    pub(in crate::net) fn now(&self) -> Moment {
        self.world.now()
    }

    /// Returns whether the keys of one call must share a slot.
    pub(in crate::net) fn slots(&self) -> Slots {
        self.batcher.slots()
    }

    /// Tells whether `call` merges with others now.
    pub(in crate::net) fn merges(&self, call: &ScriptCall, now: Moment) -> bool {
        let key = call.all_keys().next().unwrap_or_default();
        call.list().is_some() && !self.world.apart.contains(key, now)
    }

    /// Keeps calls about the object of `call` apart for a while.
    pub(in crate::net) fn keep_apart(&self, call: &ScriptCall) {
        let key = call.all_keys().next().unwrap_or_default();
        self.world.apart.add(key, self.world.now());
    }
}
