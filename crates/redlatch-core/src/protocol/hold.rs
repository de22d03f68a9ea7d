//! What a holder may believe about its hold.

use std::{fmt, time::Duration};

use super::{
    lease::{TIMER_GRAIN, Trust},
    time::Moment,
};

/// The state of a hold, as its holder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The hold is ours until at least its deadline.
    Held,
    /// The last renewal had no clear answer; the hold is still ours until its deadline, and renewal
    /// goes on, faster.
    Unknown,
    /// The hold is over. Nothing brings it back.
    Lost(LossCause),
}

impl fmt::Display for HoldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::Unknown => f.write_str("held, but the last renewal had no clear answer"),
            Self::Lost(cause) => write!(f, "lost: {cause}"),
        }
    }
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// Its lease ran out.
    Expired,
    /// The server says that a later hold has the name.
    Taken,
    /// It was ended, or its renewal forbidden, by force.
    Revoked,
    /// The server knows nothing of it any more: restarted without its data, flushed, or the key was
    /// deleted.
    Forgotten,
    /// No renewal got through before the deadline.
    Unreachable,
    /// The client was closed, or has ended with its tokio runtime.
    Closed,
    /// This process is a fork of the one that holds.
    Forked,
}

impl LossCause {
    /// Returns the cause as one lower-case word, as used in metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Taken => "taken",
            Self::Revoked => "revoked",
            Self::Forgotten => "forgotten",
            Self::Unreachable => "unreachable",
            Self::Closed => "closed",
            Self::Forked => "forked",
        }
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ran out",
            Self::Taken => "a later hold has the name",
            Self::Revoked => "it was ended by force",
            Self::Forgotten => "the server knows nothing of it",
            Self::Unreachable => "no renewal got through before its deadline",
            Self::Closed => "the client was closed",
            Self::Forked => "another process holds it, of which this one is a fork",
        })
    }
}

/// What the holder itself counts on: a deadline by the holder's own clock, and how the last renewal
/// went.
///
/// Inputs: [`extended`](Self::extended) and [`troubled`](Self::troubled) after each renewal, [`lose`](Self::lose) when somebody knows better.
/// Output: [`state`](Self::state), which is asked before anything relies on the hold. Loss is for good: a
/// renewal that is answered after the deadline does not revive it.
#[derive(Clone, Debug)]
pub(crate) struct LocalLease {
    valid_until: Moment,
    troubled: bool,
    lost: Option<LossCause>,
}

impl LocalLease {
    /// Starts with a grant of `span` that was asked for at `sent`.
    pub(crate) fn new(trust: Trust, sent: Moment, span: Duration) -> Self {
        Self {
            valid_until: trust.valid_until(sent, span),
            troubled: false,
            lost: None,
        }
    }

    /// Returns until when the hold may be relied on.
    pub(crate) const fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// Returns when the holder is told of the loss if nothing else happens: a timer's grain before
    /// the deadline.
    pub(crate) const fn tell_at(&self) -> Moment {
        self.valid_until.before(TIMER_GRAIN)
    }

    /// Takes in that a request sent at `sent` has set the lease to `span`, as was learnt at `now`.
    /// Never shortens.
    pub(crate) fn extended(
        &mut self,
        trust: Trust,
        sent: Moment,
        span: Duration,
        now: Moment,
    ) -> HoldState {
        if let HoldState::Held | HoldState::Unknown = self.state(now) {
            self.valid_until = self.valid_until.max(trust.valid_until(sent, span));
            self.troubled = false;
        }
        self.state(now)
    }

    /// Takes in that a renewal had no clear answer.
    pub(crate) fn troubled(&mut self, now: Moment) -> HoldState {
        self.troubled = true;
        self.state(now)
    }

    /// Ends the lease. The first cause stays.
    pub(crate) fn lose(&mut self, cause: LossCause, now: Moment) -> HoldState {
        if let HoldState::Held | HoldState::Unknown = self.state(now) {
            self.lost = Some(cause);
        }
        self.state(now)
    }

    /// Returns the state at `now`; from the deadline on it is lost.
    pub(crate) fn state(&mut self, now: Moment) -> HoldState {
        if self.lost.is_none() && now >= self.tell_at() {
            let cause = if self.troubled {
                LossCause::Unreachable
            } else {
                LossCause::Expired
            };
            self.lost = Some(cause);
        }
        match self.lost {
            Some(cause) => HoldState::Lost(cause),
            None if self.troubled => HoldState::Unknown,
            None => HoldState::Held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    fn local_lease() -> LocalLease {
        // 1,000 ms less 2 % and 4 ms: valid for 976 ms, told at 974 ms.
        LocalLease::new(trust(), at(0), 1000 * MS)
    }

    fn trust() -> Trust {
        Trust::default()
    }

    // L12
    #[test]
    fn loss_is_reported_before_the_deadline_without_any_reply() {
        let mut local_lease = local_lease();
        assert_eq!(local_lease.state(at(973)), HoldState::Held);
        assert_eq!(
            local_lease.state(at(974)),
            HoldState::Lost(LossCause::Expired)
        );
    }

    // L13
    #[test]
    fn one_failed_renewal_is_not_a_loss() {
        let mut local_lease = local_lease();
        assert_eq!(local_lease.troubled(at(333)), HoldState::Unknown);
        assert_eq!(
            local_lease.extended(trust(), at(400), 1000 * MS, at(410)),
            HoldState::Held
        );
        assert_eq!(local_lease.valid_until(), at(1376));
        assert_eq!(local_lease.troubled(at(700)), HoldState::Unknown);
        assert_eq!(
            local_lease.state(at(1374)),
            HoldState::Lost(LossCause::Unreachable)
        );
    }

    #[test]
    fn a_renewal_answered_too_late_revives_nothing() {
        let mut local_lease = local_lease();
        let state = local_lease.extended(trust(), at(970), 1000 * MS, at(980));
        assert_eq!(state, HoldState::Lost(LossCause::Expired));
        assert_eq!(
            local_lease.lose(LossCause::Taken, at(990)),
            state,
            "the first cause stays"
        );
    }

    // L15
    #[test]
    fn a_shorter_lease_does_not_shorten() {
        let mut local_lease = local_lease();
        local_lease.extended(trust(), at(100), 50 * MS, at(101));
        assert_eq!(local_lease.valid_until(), at(976));
    }
}
