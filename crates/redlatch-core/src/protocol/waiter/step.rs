//! The plan of an acquisition, and the steps and answers of its waiter.

use std::{fmt, time::Duration};

use crate::protocol::{backoff::Backoff, time::Moment};

/// The caller's options for an acquisition, and how the object serves its waiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// When the caller gives up.
    pub give_up: GiveUp,
    /// How to wait.
    pub strategy: WaitStrategy,
    /// The order in which the object serves waiters.
    pub discipline: Discipline,
    /// How many waiters hold the object at a time.
    pub admission: Admission,
    /// How long to continue without any answer from the server.
    pub patience: Duration,
}

/// When a caller gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveUp {
    /// At the first clear answer: the caller does not wait.
    AtFirstAnswer,
    /// At this moment.
    At(Moment),
    /// Never.
    Never,
}

/// How an object serves its waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discipline {
    /// The first request to arrive while the object is free gets it. One waiter per client asks on
    /// behalf of all waiters of that client.
    #[default]
    Barging,
    /// Waiters are served in the order of their tickets. Every waiter has its own place on the
    /// server from its first request on.
    Queued,
}

/// How many waiters of an object's side hold it at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// One after another.
    OneByOne,
    /// All waiters together, such as readers. The server notifies all of them with one message.
    Together,
}

/// How a waiter learns that it may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// The server notifies the waiter. A bounded re-check covers a lost message. This is the
    /// default.
    Notify,
    /// The waiter asks again after each pause and never subscribes, as a spin lock does.
    Poll(Backoff),
}

impl Plan {
    /// Returns the caller's deadline, if there is one.
    pub(crate) const fn deadline(&self) -> Option<Moment> {
        match self.give_up {
            GiveUp::At(deadline) => Some(deadline),
            GiveUp::AtFirstAnswer | GiveUp::Never => None,
        }
    }

    /// Returns whether the caller's deadline has passed.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Returns `until`, or the caller's deadline if that is earlier.
    pub(crate) fn bound(&self, until: Moment) -> Moment {
        self.deadline()
            .map_or(until, |deadline| until.min(deadline))
    }

    pub(super) fn notifies(&self) -> bool {
        self.strategy == WaitStrategy::Notify
    }

    pub(super) fn takes_first_answer(&self) -> bool {
        self.give_up == GiveUp::AtFirstAnswer
    }
}

/// The next step of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait in the local queue for the turn, a prompt, or a message for the waiter itself: it may
    /// have registered before it stood in line. At `until`, replace the first waiter if it is more
    /// than `overdue` later than it announced.
    AwaitTurn {
        /// When to check the first waiter.
        until: Moment,
        /// How late the first waiter may be.
        overdue: Duration,
    },
    /// Send the attempt with the same id as before, and register for a notification as the value
    /// says.
    Send(Registration),
    /// Ensure that messages reach the client, then call `on_subscribed` or `on_unsubscribed`.
    Subscribe,
    /// Wait for a message, a prompt, or a change of the local queue, until `until` at the latest.
    Wait {
        /// When to ask again.
        until: Moment,
    },
    /// Wait until `until` and ignore all messages.
    Pause {
        /// When to continue.
        until: Moment,
    },
    /// Give up this attempt, which undoes it, and continue with a fresh one.
    StartOver(Restart),
    /// End the acquisition.
    End(End),
}

/// How a busy answer registers the waiter with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The answer registers nothing.
    None,
    /// The waiter takes a slot in the server's queue, and asks by itself whether its turn has come.
    Silent,
    /// The server notifies the waiter.
    Notified,
}

/// Why the waiter gives up an attempt, which undoes it, and begins a fresh one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The server granted the attempt, but the reply came after the lease could have ended.
    GrantExpired,
    /// The server says that the attempt has ended, or that a later one of this client has.
    AttemptVoid,
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GrantExpired => "the reply came after the lease could have ended",
            Self::AttemptVoid => "the server refuses the attempt",
        })
    }
}

/// Why an acquisition ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Another owner holds the object, and the caller does not wait, or not any longer.
    Busy,
    /// The server did not answer before the caller's deadline, or within the client's patience.
    Unanswered,
    /// As `Unanswered`, but this waiter never asked. The waiters before it in the local queue did.
    QueueUnanswered,
}

/// A request of one waiter of a local queue to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prompt {
    /// The waiter's slot in the server's queue may be lost. It asks for a new one when the client's
    /// rate limit allows.
    Requeue,
    /// The waiter asks at once.
    Retry,
}

/// Whether messages of the server reach this client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// Messages reach the client.
    Active,
    /// Messages may not reach the client.
    #[default]
    Inactive,
}

impl From<bool> for Subscription {
    fn from(heard: bool) -> Self {
        if heard { Self::Active } else { Self::Inactive }
    }
}

/// Which waiter of a local queue may ask the server next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This waiter.
    Ours,
    /// Another waiter.
    Others,
}

/// The latest contact of a local queue's waiters with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// No answer has arrived yet.
    Awaited,
    /// The server answered the last request.
    Answered,
    /// The server did not answer the last request.
    Failing,
}

/// A view of a waiter's local queue at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueView {
    /// Which waiter may ask the server.
    pub turn: Turn,
    /// When the server last answered a waiter of this queue, or when the queue began.
    pub heard: Moment,
    /// The latest contact of the queue's waiters with the server.
    pub contact: Contact,
    /// When the first waiter will check again at the latest, if it has announced that.
    pub first_back_at: Option<Moment>,
}

impl QueueView {
    /// The view of a waiter that stands in no queue.
    pub(crate) const NONE: Self = Self {
        turn: Turn::Ours,
        heard: Moment::ORIGIN,
        contact: Contact::Awaited,
        first_back_at: None,
    };
}

/// An answer that says that another owner holds the object, or comes first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    /// The time until another request is useful, usually the rest of the holder's lease.
    pub remaining: Duration,
    /// Whether a message about the end of that hold would reach the client now.
    pub subscription: Subscription,
    /// Whether the waiter had no slot in the server's queue before, and has one now.
    pub entered: bool,
    /// Whether the server has this waiter in no queue, so that it has to ask by itself.
    pub beside: bool,
    /// Whether the waiter's own owner holds the object.
    pub owner_holds: bool,
}

/// An answer that grants the attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Granted {
    /// Whether the waiter's slot in the server's queue was lost, provided that it had one.
    pub unqueued: bool,
    /// Whether copies of this request may be under way. One of them may have used the slot.
    pub has_copies: bool,
}
