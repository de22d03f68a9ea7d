//! Local hand-off of an object within the process: the next local waiter sends its request right
//! behind the release, without a notification.
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
};

use super::{LocalQueues, PendingRelease, pending_release::NextWaiter};
use crate::{
    base::{items::reported_grants, primitive::Waiting, rules::Rule},
    net::Strays,
    protocol::waiter::Discipline,
    runtime::Value,
};

impl PendingRelease {
    /// Selects the local waiter that asks right behind this release, if there is one and no other
    /// client is known to wait.
    pub(super) fn name_next_waiter(&mut self, local_queues: &Arc<LocalQueues>) {
        // The other disciplines serve all waiters in order, across processes.
        if self.primitive.discipline() != Discipline::Barging {
            return;
        }
        let key = self.primitive.key();
        if !local_queues.take_uncontended(key, self.primitive.kind()) || !self.address.is_empty() {
            return;
        }
        if let Some((id, address)) = local_queues.first(key) {
            // If this release frees the name, it removes the waiter's entry, and notifies another
            // waiter if one has registered.
            self.address = format!("+{address}");
            self.next_waiter = Some(Box::new(NextWaiter {
                local_queues: Arc::clone(local_queues),
                key: key.clone(),
                id,
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
            Waiting::Somebody { called, more } => !more && local_queues.is_ours(key, called),
        };
        if alone {
            local_queues.put_uncontended(key, self.primitive.kind());
        }
        // A copy of this release may have removed the entry after the waiter had asked.
        self.prompt_next_waiter();
        self.hand_over(local_queues, strays, reply)
    }

    /// Tells the waiters of this client to which the release has given the object. Reports those
    /// that do not wait any more. Returns whether it has told any that it holds.
    fn hand_over(&self, local_queues: &LocalQueues, strays: &Strays, reply: &Value) -> bool {
        let (key, client) = (self.primitive.key(), self.owner.client().as_str());
        let mut told = false;
        if !local_queues.keeps(Rule::HandOverGrants) {
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

    fn prompt_next_waiter(&self) {
        if let Some(next_waiter) = &self.next_waiter {
            next_waiter.prompt();
        }
    }
}

/// Sends releases. Prompts the next waiters as soon as the releases are on their way.
///
/// # Cancel safety
///
/// The same as that of `sending`. The next waiters have been prompted, or wait for their turn as
/// before.
pub(super) async fn ahead_of_next_waiters<T>(
    mut sending: impl Future<Output = T> + Unpin,
    releases: impl Iterator<Item = &PendingRelease>,
) -> T {
    let sent = poll_fn(|context| Poll::Ready(Pin::new(&mut sending).poll(context))).await;
    releases.for_each(PendingRelease::prompt_next_waiter);
    match sent {
        Poll::Ready(answer) => answer,
        Poll::Pending => sending.await,
    }
}
