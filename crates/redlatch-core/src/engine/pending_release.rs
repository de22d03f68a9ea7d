//! A release that waits for its answer, and its local hand-off: the next waiter of this process
//! sends its request right behind the release, without a notification.
//!
//! No waiter of another client may lose its turn by that. The reply to each release says whether
//! another client waits. Only if none waits, the next local waiter sends its request in the same
//! write as the following release. If a waiter of another client registers in the meantime, that
//! release still notifies it. The notification may be in vain once; the next release serves it.
//!
//! A release that [grants](super::acquire) says so in its reply. A waiter of the same client gets
//! the grant from there, and no message is sent.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::LocalQueues;
use crate::{
    Owner,
    base::{
        items::reported_grants,
        owner::AttemptId,
        primitive::{Primitive, ReleaseRequest, Token, WaiterAddress, Waiting},
        rules::Rule,
        script::ScriptCall,
    },
    net::{CalledBy, Strays},
    protocol::{time::Moment, waiter::Discipline},
    runtime::Value,
};

/// A release or undo of one attempt that the server has not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) owner: Owner,
    pub(crate) attempt: AttemptId,
    /// What it releases of a delivered hold. `None` if it undoes an abandoned acquisition.
    pub(crate) part: Option<Part>,
    /// The last server time at which a request of the attempt may act, if the server has to refuse
    /// copies from now on.
    pub(crate) void_by: Option<u64>,
    /// Whether requests of the attempt may be executed yet.
    pub(crate) copies: bool,
    /// How the server notifies the attempt, if it may have an entry of it.
    pub(crate) called_by: Option<Box<CalledBy>>,
    /// The local waiter that sends its request right behind it.
    pub(super) next_waiter: Option<Box<NextWaiter>>,
    /// The time at which the lease has certainly ended it on the server.
    pub(crate) give_up_at: Moment,
}

/// The part of a hold that a release ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) token: Token,
    pub(crate) serial: u64,
    /// For a hold that can be divided: the units that remain, and the units that are permanently
    /// gone.
    pub(crate) left: u32,
    pub(crate) forgotten: u32,
}

/// The waiter that sends its request right behind a release.
#[derive(Clone, Debug)]
pub(super) struct NextWaiter {
    id: u64,
    attempt: u64,
    called_by: CalledBy,
}

impl PendingRelease {
    /// Builds the call of this release.
    pub(super) fn call(&self, retention: Duration) -> ScriptCall {
        let own = self.called_by.as_ref();
        let own = own.map(|called_by| called_by.address(self.attempt.number()));
        let next = self.next_waiter.as_ref().map(|next| WaiterAddress {
            prompted: true,
            ..next.called_by.address(next.attempt)
        });
        self.primitive.release(&ReleaseRequest {
            owner: &self.owner,
            attempt: &self.attempt,
            token: self.part.map(|part| part.token),
            serial: self.part.map(|part| part.serial),
            void_by: self.void_by,
            retention,
            address: next.or(own),
            left: self.part.map_or(0, |part| part.left),
            forgotten: self.part.map_or(0, |part| part.forgotten),
        })
    }

    /// Selects the local waiter that asks right behind this release, if there is one and no other
    /// client is known to wait.
    pub(super) fn name_next_waiter(&mut self, local_queues: &LocalQueues) {
        // The other disciplines serve all waiters in order, across processes.
        if self.primitive.discipline() != Discipline::Barging {
            return;
        }
        let key = self.primitive.key();
        if !local_queues.take_uncontended(key, self.primitive.kind()) || self.called_by.is_some() {
            return;
        }
        if let Some((id, attempt, called_by)) = local_queues.first(self.primitive.as_ref()) {
            // If this release frees the name, it removes the waiter's entry, and notifies another
            // waiter if one has registered.
            self.next_waiter = Some(Box::new(NextWaiter {
                id,
                attempt,
                called_by,
            }));
        }
    }

    /// Processes the reply's information about other waiters. Returns whether a waiter of this
    /// client got a grant by it.
    pub(super) fn answered(
        &self,
        local_queues: &LocalQueues,
        strays: &Strays,
        reply: &Value,
    ) -> bool {
        let key = self.primitive.key();
        let alone = match self.primitive.waiting(reply) {
            Waiting::Unknown => false,
            Waiting::Nobody => self.next_waiter.is_some(),
            Waiting::Somebody { called, more } => {
                !more && local_queues.is_ours(self.primitive.as_ref(), called)
            }
        };
        if alone {
            local_queues.put_uncontended(key, self.primitive.kind());
        }
        // A copy of this release may have removed the entry after the waiter had asked.
        self.prompt_next_waiter(local_queues);
        self.hand_over(local_queues, strays, reply)
    }

    /// Tells the waiters of this client to which the release has given the object. Reports those
    /// that do not wait any more. Returns whether it has told any that it holds.
    fn hand_over(&self, local_queues: &LocalQueues, strays: &Strays, reply: &Value) -> bool {
        let (key, client) = (self.primitive.key(), self.owner.client().as_str());
        let mut told = false;
        if !local_queues.rules.keeps(Rule::HandOverGrants) {
            return false;
        }
        let tells = self.primitive.tells_by_reply(reply);
        for grant in reported_grants(reply).filter(|grant| tells || grant.notice.is_none()) {
            let number = grant.attempt.strip_prefix(client);
            let number = number.and_then(|rest| rest.strip_prefix(':')?.parse().ok());
            let Some(number) = number else {
                continue;
            };
            let waits = local_queues.pass_on(key, number, grant.notice);
            // Without a notice, the attempt usually knows that it holds, and does not wait.
            if grant.notice.is_some() {
                told |= waits;
                if !waits {
                    strays.add(format!("{key} {number}").into());
                }
            }
        }
        told
    }

    /// Makes the next waiter ask the server.
    pub(super) fn prompt_next_waiter(&self, local_queues: &LocalQueues) {
        if let Some(next) = &self.next_waiter {
            local_queues.prompt(self.primitive.as_ref(), next.id);
        }
    }
}

/// Sends releases, and calls `begun` as soon as they are on their way. There the next waiters are
/// prompted.
///
/// # Cancel safety
///
/// The same as that of `sending`. The next waiters have been prompted, or wait for their turn as
/// before.
pub(super) async fn send_before<T>(
    mut sending: impl Future<Output = T> + Unpin,
    begun: impl FnOnce(),
) -> T {
    let sent = poll_fn(|context| Poll::Ready(Pin::new(&mut sending).poll(context))).await;
    begun();
    match sent {
        Poll::Ready(answer) => answer,
        Poll::Pending => sending.await,
    }
}
