//! What a waiter is told, and what it says to do.

use std::{fmt, time::Duration};

use crate::protocol::time::Moment;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait in the local queue, for the turn, a prompt, or a message in `listen`. At `until`,
    /// replace the first waiter if it is later than it said by `overdue`.
    AwaitTurn {
        /// When to look at the first waiter.
        until: Moment,
        /// How late the first waiter may be.
        overdue: Duration,
        /// Which messages end it.
        listen: Listen,
    },
    /// Send the attempt, same id as before, and register for a notification as it says.
    Send(Registration),
    /// Make sure that messages reach us, then tell `on_subscribed` or `on_unsubscribed`.
    Subscribe,
    /// Wait for a message in `listen`, a prompt or a change of the local queue, until `until` at
    /// the latest.
    Wait {
        /// When to ask again.
        until: Moment,
        /// Which messages end it.
        listen: Listen,
    },
    /// Wait until `until`, whatever messages come.
    Pause {
        /// When to go on.
        until: Moment,
    },
    /// Give this attempt up, which undoes it, and go on with a fresh one.
    StartOver(Restart),
    /// Stop.
    End(End),
}

/// Whether a busy answer shall register the waiter with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// It registers nothing.
    None,
    /// It takes a slot in the server's queue, and asks by itself whether its turn has come.
    Silent,
    /// The server is to notify it.
    Notified,
}

/// Which messages of the server a waiter heeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// None: the first waiter of the local queue heeds them.
    Nothing,
    /// Those for itself.
    Own,
    /// Those for any waiter of its local queue, too.
    Everyone,
}

/// Why an attempt is given up, which undoes it, and a fresh one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// It was granted, but its reply came after the lease could have ended.
    GrantExpired,
    /// The server says that it has been undone.
    AttemptVoid,
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GrantExpired => "the reply came after the lease could have ended",
            Self::AttemptVoid => "the attempt had been undone",
        })
    }
}

/// Why an acquisition ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is held by another, and the caller does not wait (any longer).
    Busy,
    /// The server did not answer in the caller's time, or not for as long as the client is patient.
    Unanswered,
    /// The same, and this waiter never asked: those before it in the local queue did.
    QueueUnanswered,
}

/// What one waiter of a local queue tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prompt {
    /// Its slot in the server's queue may be lost: ask for a new one when the client's rate limit
    /// allows.
    Requeue,
    /// Ask at once.
    Retry,
}

/// Whether messages of the server reach this client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// They do.
    Active,
    /// They may not.
    #[default]
    Inactive,
}

/// Who may ask the server next, of the waiters of one local queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This waiter.
    Ours,
    /// Another.
    Others,
}

/// What the waiters of a local queue have heard of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// No answer yet.
    Awaited,
    /// The last request was answered.
    Answered,
    /// The last request was not answered.
    Failing,
}

/// A waiter's local queue, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueView {
    /// Who may ask the server.
    pub turn: Turn,
    /// When the server last answered a waiter of this queue, or the queue began.
    pub heard: Moment,
    /// What its waiters have heard of the server.
    pub contact: Contact,
    /// When the first waiter will be back, as far as it has said.
    pub first_back_at: Option<Moment>,
}

impl QueueView {
    /// A waiter that stands in no queue.
    pub(crate) const NONE: Self = Self {
        turn: Turn::Ours,
        heard: Moment::ORIGIN,
        contact: Contact::Awaited,
        first_back_at: None,
    };
}

/// An answer that says that another holds the object, or comes first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    /// Until it is worth to ask again: usually when the holder's lease ends.
    pub remaining: Duration,
    /// Whether messages would reach us now that tell of its end.
    pub subscription: Subscription,
    /// This waiter had no slot in the server's queue before, and has one now.
    pub entered: bool,
    /// The server has this waiter in no queue: it has to ask by itself.
    pub beside: bool,
    /// The waiter's owner holds the object itself.
    pub owner_holds: bool,
}

/// An answer that grants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Granted {
    /// If the waiter had a slot in the server's queue, that was lost.
    pub unqueued: bool,
    /// Copies of this request may be under way. One of them may have taken the slot.
    pub has_copies: bool,
}
