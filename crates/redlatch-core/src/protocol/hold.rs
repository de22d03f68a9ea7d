//! The state of a hold by the holder's own clock.

use std::{fmt, time::Duration};

use super::{
    lease::{TIMER_GRAIN, Trust},
    time::Moment,
};

/// The state of a hold, as its holder knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The hold is valid until at least its deadline.
    Held,
    /// The last renewal had no clear answer. The hold is still valid until its deadline, and
    /// renewals continue at shorter intervals.
    Unknown,
    /// The hold is over. Nothing restores it.
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
    /// The lease ran out.
    Expired,
    /// The server says that a later hold has the name.
    Taken,
    /// The hold was ended by force, or its renewal was forbidden by force.
    Revoked,
    /// The server has no record of the hold: it restarted without its data, it was flushed, or the
    /// key was deleted.
    Forgotten,
    /// No renewal got through before the deadline.
    Unreachable,
    /// The client was closed, or has ended with its tokio runtime.
    Closed,
    /// This process is a fork of the process that holds.
    Forked,
}

impl LossCause {
    /// Returns the cause as one lower-case word, as used in metrics and events.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use redlatch::LossCause;
    ///
    /// assert_eq!(LossCause::Revoked.as_str(), "revoked"); // the label of a metric
    /// ```
    pub const fn as_str(self) -> &'static str {
        self.words().0
    }

    /// Returns the word for metrics and events, and the text for people.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Expired => ("expired", "its lease ran out"),
            Self::Taken => ("taken", "a later hold has the name"),
            Self::Revoked => ("revoked", "it was ended by force"),
            Self::Forgotten => ("forgotten", "the server knows nothing of it"),
            Self::Unreachable => ("unreachable", "no renewal got through before its deadline"),
            Self::Closed => ("closed", "the client was closed"),
            Self::Forked => (
                "forked",
                "another process holds it, of which this one is a fork",
            ),
        }
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().1)
    }
}

/// The holder's own record of its lease: a deadline by the holder's clock, and the result of the
/// last renewal.
///
/// Inputs: [`extended`](Self::extended) and [`troubled`](Self::troubled) after each renewal, and
/// [`lose`](Self::lose) when another source reports the loss. Output: [`state`](Self::state), which
/// the caller reads before it relies on the hold. A loss is final: a renewal that is answered after
/// the deadline does not restore the hold.
#[derive(Clone, Debug)]
pub(crate) struct LocalLease {
    valid_until: Moment,
    troubled: bool,
    lost: Option<LossCause>,
}

impl LocalLease {
    /// Creates the record of a grant of `span` that was requested at `sent`.
    pub(crate) fn new(trust: Trust, sent: Moment, span: Duration) -> Self {
        Self {
            valid_until: trust.valid_until(sent, span),
            troubled: false,
            lost: None,
        }
    }

    /// Returns the moment until which the holder may rely on the hold.
    pub(crate) const fn valid_until(&self) -> Moment {
        self.valid_until
    }

    /// Returns when the holder learns of the loss if no other event occurs: [`TIMER_GRAIN`] before
    /// the deadline.
    pub(crate) const fn tell_at(&self) -> Moment {
        self.valid_until.before(TIMER_GRAIN)
    }

    /// Records that a request sent at `sent` has set the lease to `span`. The answer arrived at
    /// `now`. The deadline never moves back.
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

    /// Records that a renewal had no clear answer.
    pub(crate) fn troubled(&mut self, now: Moment) -> HoldState {
        self.troubled = true;
        self.state(now)
    }

    /// Ends the lease. A later cause does not replace the first one.
    pub(crate) fn lose(&mut self, cause: LossCause, now: Moment) -> HoldState {
        if let HoldState::Held | HoldState::Unknown = self.state(now) {
            self.lost = Some(cause);
        }
        self.state(now)
    }

    /// Returns the state at `now`. The hold is lost from [`tell_at`](Self::tell_at) on.
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
    use crate::protocol::time::at;

    #[test]
    fn a_renewal_answered_too_late_revives_nothing() {
        let (trust, second) = (Trust::default(), Duration::from_secs(1));
        // 1,000 ms less 2 % and 4 ms: valid for 976 ms, reported as lost at 974 ms.
        let mut lease = LocalLease::new(trust, at(0), second);
        assert_eq!(lease.state(at(973)), HoldState::Held);
        let state = lease.extended(trust, at(970), second, at(974));
        assert_eq!(state, HoldState::Lost(LossCause::Expired));
        let later = lease.lose(LossCause::Taken, at(990));
        assert_eq!(later, state, "the first cause stays");
    }
}
