//! What a caller may ask of an acquisition.

use std::time::Duration;

use crate::{
    Durability, Owner,
    protocol::{
        lease::Lease,
        time::Moment,
        waiter::{GiveUp, WaitStrategy},
    },
};

/// What a caller wants of one acquisition. For the crates of this family, which put builders in
/// front.
#[derive(Clone, Debug)]
pub struct AcquireOptions {
    /// Who is to hold.
    pub owner: OwnerChoice,
    /// For how long; the client's default if absent.
    pub lease: Option<Lease>,
    /// How long to wait.
    pub wait: Wait,
    /// How to wait; the client's way if absent.
    pub strategy: Option<WaitStrategy>,
    /// After how long the watchdog stops renewing for this guard, although it lives; the lease that
    /// runs then is the last.
    pub max_hold: Option<Duration>,
    /// Who has to have the grant, and each renewal, before it counts.
    pub durability: Durability,
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self {
            owner: OwnerChoice::Scope,
            lease: None,
            wait: Wait::Forever,
            strategy: None,
            max_hold: None,
            durability: Durability::Master,
        }
    }
}

/// Who is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerChoice {
    /// This owner.
    Given(Owner),
    /// The owner of the scope this is called in, a fresh one outside of any.
    Scope,
    /// A fresh owner, whatever the scope.
    Fresh,
}

/// How long to wait for a name that is held by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Until it is free.
    Forever,
    /// Not at all: the server's first clear answer counts, past the local queue.
    Never,
    /// At most so long, whatever happens; zero is [`Never`](Self::Never).
    For(Duration),
}

impl Wait {
    /// Returns when a caller gives up who begins at `now`.
    pub(crate) fn give_up(self, now: Moment) -> GiveUp {
        match self {
            Self::Never | Self::For(Duration::ZERO) => GiveUp::AtFirstAnswer,
            Self::For(wait) => GiveUp::At(now + wait),
            Self::Forever => GiveUp::Never,
        }
    }
}
