//! The options of an acquisition.

use std::{sync::Arc, time::Duration};

use crate::{
    Durability, Owner,
    protocol::{
        lease::Lease,
        time::Moment,
        waiter::{GiveUp, WaitStrategy},
    },
};

/// The options of one acquisition. For the crates of this family, which offer builders.
#[derive(Clone, Debug, Default)]
pub struct AcquireOptions {
    /// The owner of the hold.
    pub owner: OwnerChoice,
    /// The lease; the client's default if absent.
    pub lease: Option<Lease>,
    /// How long to wait.
    pub wait: Wait,
    /// How to wait; the client's strategy if absent.
    pub strategy: Option<WaitStrategy>,
    /// The time after which the watchdog stops renewing for this guard, even if the guard is alive.
    /// The lease that runs at that time is the last.
    pub max_hold: Option<Duration>,
    /// The durability that the grant and each renewal need before they count.
    pub durability: Durability,
    /// Why the caller acquires it, for others to see.
    pub note: Option<Arc<str>>,
    /// Whether the hold has to begin with the whole lease, so that no release may grant it ahead.
    pub whole_lease: bool,
    /// Whether an answer to the call that this is a part of is known. Then no request begins that
    /// would be answered after the end of the wait.
    pub answered: bool,
}

/// The choice of the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerChoice {
    /// This owner.
    Given(Owner),
    /// The owner of the current scope; a fresh owner outside of a scope.
    #[default]
    Scope,
    /// A fresh owner, also inside of a scope.
    Fresh,
}

/// Whether an owner may have other holds and acquisitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The owner was made for one acquisition, and nobody else knows it yet.
    Fresh,
    Known,
}

/// How long to wait for a name that another owner holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Until it is free.
    #[default]
    Forever,
    /// Not at all. The server's first clear answer counts, and the request bypasses the local
    /// queue.
    Never,
    /// At most this long, whatever happens. Zero is [`Never`](Self::Never).
    For(Duration),
}

impl Wait {
    /// Returns the time at which a caller that begins at `now` gives up.
    pub(crate) fn give_up(self, now: Moment) -> GiveUp {
        match self {
            Self::Never | Self::For(Duration::ZERO) => GiveUp::AtFirstAnswer,
            Self::For(wait) => GiveUp::At(now + wait),
            Self::Forever => GiveUp::Never,
        }
    }
}
