//! A release that a caller awaits.

use std::{fmt, future::Future, pin::pin, sync::Arc};

use tokio::task::{unconstrained, yield_now};

use super::{PendingRelease, context::ReleaseTicket, pending_release::send_before};
use crate::{
    Error, ErrorKind,
    base::{
        error::About as _,
        primitive::{Primitive, ReleaseReply},
        script::Script,
        timeouts,
    },
    net::{Answered, Checked, Repeated},
    protocol::{classify::Refusal, remains::Effect},
};

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// This was the last guard of the hold, and the name is free.
    Free,
    /// The owner still holds the name, with this number of guards as the server counts them.
    StillHeld(u32),
    /// The lease had already ended; no other owner has taken the name since.
    Expired,
    /// The lease had already ended, and a later hold has the name.
    TakenOver,
    /// The hold had already been ended by force.
    Revoked,
    /// The server has no record of the hold: it lost its data, it has dropped the name's token
    /// since, or another program has overwritten the key.
    Forgotten,
    /// The release had to be repeated, or a late message made the client withdraw the hold before
    /// it. The server no longer knows whether the first request found the hold.
    Unconfirmed,
}

impl Released {
    /// Tells whether the hold lasted until the release.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::Released;
    ///
    /// assert!(Released::Free.is_clean());
    /// assert!(!Released::Expired.is_clean()); // the work was not protected to its end
    /// ```
    pub const fn is_clean(self) -> bool {
        matches!(self, Self::Free | Self::StillHeld(_))
    }

    /// Combines the outcomes of several holds: the worst, or the number of guards that are left.
    /// For the crates of this family.
    #[doc(hidden)]
    pub fn together(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter()
            .fold(Self::Free, |one, other| match (one, other) {
                (Self::Free, other) => other,
                (one, Self::Free) => one,
                (Self::StillHeld(one), Self::StillHeld(other)) => Self::StillHeld(one + other),
                (Self::StillHeld(_), worse) | (worse, _) => worse,
            })
    }

    /// Interprets a reply. `resent` means that an earlier copy may have been executed.
    pub(crate) const fn of(reply: ReleaseReply, resent: bool) -> Self {
        match reply {
            ReleaseReply::Released(0) | ReleaseReply::Already(0) => Self::Free,
            ReleaseReply::Released(left) | ReleaseReply::Already(left) => Self::StillHeld(left),
            ReleaseReply::Expired => Self::Expired,
            ReleaseReply::Revoked => Self::Revoked,
            ReleaseReply::Taken | ReleaseReply::Gone if resent => Self::Unconfirmed,
            ReleaseReply::Taken => Self::TakenOver,
            ReleaseReply::Gone => Self::Forgotten,
        }
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("the name is free"),
            Self::StillHeld(guards) => write!(f, "its owner holds on {guards} times"),
            Self::Expired => f.write_str("its lease had run out before"),
            Self::TakenOver => {
                f.write_str("its lease had run out before, and a later hold has the name")
            }
            Self::Revoked => f.write_str("it had been ended by force"),
            Self::Forgotten => f.write_str("the server knows nothing of it"),
            Self::Unconfirmed => {
                f.write_str("sent again; the server no longer knows what the first one found")
            }
        }
    }
}

/// Sends a release until it is answered or the client's patience ends. If the future is dropped or
/// fails, the releaser continues. The caller polls the future at once if it has `checked`.
pub(super) fn run<'a>(
    ticket: ReleaseTicket<'a>,
    pending: PendingRelease,
    checked: Checked,
) -> impl Future<Output = Result<Released, Error>> + use<'a> {
    let client = ticket.client();
    // Created outside of the future, so that the future does not contain it a second time as an
    // argument.
    let mut handover = Handover {
        pending: Some(pending),
        ticket,
    };
    async move {
        let Some(pending) = &handover.pending else {
            return Err(client.closed());
        };
        let primitive = Arc::clone(&pending.primitive);
        // The parts of the request end here, so that the future does not keep them beside the rest.
        let (released, told) = {
            let call = pending.call(client.0.retention);
            let deadline = checked.unwrap_or_else(|| client.now()) + client.0.patience;
            let repeated = Repeated {
                checked,
                ..Repeated::new(&call, timeouts::REQUEST, deadline)
            };
            let sending = pin!(client.net().insist(repeated));
            let prompt = || pending.prompt_next_waiter(client.local_queues());
            // With an exhausted cooperative budget, the first poll would send nothing.
            let answered = send_before(unconstrained(sending), prompt).await;
            handover.answered(primitive.as_ref(), call.script(), answered)
        };
        if told {
            // The next holder goes on before the caller, who may want the object again. tokio's
            // function keeps the caller out of the run queue until the thread has nothing else to
            // do. A task in that queue makes the runtime wake another thread, which delays this one
            // where cores are few.
            yield_now().await;
        }
        released.about(primitive.kind(), primitive.name())
    }
}

/// Hands the release to the releaser unless it was answered whole.
struct Handover<'a> {
    pending: Option<PendingRelease>,
    /// Dropped after the releaser has the release, so that `close` sees one of them.
    ticket: ReleaseTicket<'a>,
}

impl Handover<'_> {
    /// Processes the outcome of the release. Returns it, and whether a waiter of this client has
    /// the object now.
    fn answered(
        &mut self,
        primitive: &dyn Primitive,
        script: &'static Script,
        answered: Result<Answered, Error>,
    ) -> (Result<Released, Error>, bool) {
        let Answered {
            reply,
            resent,
            bare,
            ..
        } = match answered {
            Ok(answered) => answered,
            Err(error) => return (self.failed(error), false),
        };
        let client = self.ticket.client();
        let (mut told, mut attempt) = (false, 0);
        if let Some(pending) = &self.pending {
            attempt = pending.attempt.number();
            let strays = &client.net().world.strays;
            told = pending.answered(client.local_queues(), strays, &reply);
            client.0.releaser.heed(primitive, &reply);
        }
        // The releaser repeats a call without its optional keys, which notifies the next waiter.
        self.pending.take_if(|_| !bare);
        if let Some(pending) = &mut self.pending {
            pending.next_waiter = None;
        }
        let released = primitive.released(script, &reply);
        let released = released.map(|reply| {
            let unknown = matches!(reply, ReleaseReply::Taken | ReleaseReply::Gone);
            let struck = unknown && client.0.withdrawals.has_struck(attempt);
            Released::of(reply, resent || struck)
        });
        (released.or_else(overwritten), told)
    }

    /// Returns the outcome of a release that failed. The releaser goes on, unless nothing is left.
    fn failed(&mut self, error: Error) -> Result<Released, Error> {
        let released = overwritten(error)?;
        let foreign = Effect::Stopped(Refusal::WrongType);
        self.pending
            .take_if(|pending| foreign.ends_release(pending.copies));
        Ok(released)
    }
}

/// Returns the outcome for a key that another program has overwritten: the server has no record of
/// the hold.
fn overwritten(error: Error) -> Result<Released, Error> {
    match error.kind() {
        ErrorKind::WrongKind => Ok(Released::Forgotten),
        _ => Err(error),
    }
}

impl Drop for Handover<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.ticket.client().enqueue_release(pending);
        }
    }
}
