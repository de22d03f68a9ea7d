//! The shares that the guards of one hold have in it.

use std::{slice, time::Duration};

use crate::{
    Durability,
    base::owner::AttemptId,
    protocol::{lease::Lease, time::Moment},
};

/// The state of a delivered attempt's requests.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub(super) id: AttemptId,
    /// Boxed, since nearly no attempt has copies.
    pub(super) copies: Option<Box<Copies>>,
}

/// Requests of an attempt that may still act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    /// The last server time at which the copies may act.
    pub(super) act_before: u64,
    /// The address under which a copy may register a waiter after the hold has ended. Empty if
    /// copies do not register.
    pub(super) address: String,
}

/// The share of one guard in its hold.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// The number of the attempt that acquired it.
    pub(super) attempt: u64,
    /// The lease that it was acquired with.
    pub(super) lease: Lease,
    /// Boxed; `None` for the default terms.
    terms: Option<Box<Terms>>,
}

/// The terms of a guard besides its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The time until which the watchdog renews its lease.
    pub(super) until: Moment,
    pub(super) copies: Option<Box<Copies>>,
    /// The durability that a renewal needs before it counts.
    pub(super) durability: Durability,
    /// The number of its units that are permanently gone.
    pub(super) forgotten: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            until: Moment::FAR_FUTURE,
            copies: None,
            durability: Durability::Master,
            forgotten: 0,
        }
    }
}

impl Share {
    pub(super) fn new(attempt: u64, lease: Lease, terms: Terms) -> Self {
        let usual = terms == Terms::default();
        Self {
            attempt,
            lease,
            terms: (!usual).then(|| Box::new(terms)),
        }
    }

    /// Returns the lease that the watchdog renews for it at `now`, if any.
    pub(super) fn renewing(&self, now: Moment) -> Option<Duration> {
        let terms = self.terms.as_deref();
        let renewing = self.lease.is_renewed() && terms.is_none_or(|terms| now < terms.until);
        renewing.then(|| self.lease.span())
    }

    pub(super) fn copies(&self) -> Option<&Copies> {
        self.terms.as_deref()?.copies.as_deref()
    }

    pub(super) fn durability(&self) -> Durability {
        let terms = self.terms.as_deref();
        terms.map_or(Durability::Master, |terms| terms.durability)
    }

    pub(super) fn forgotten(&self) -> u32 {
        let terms = self.terms.as_deref();
        terms.map_or(0, |terms| terms.forgotten)
    }

    /// Sets the total number of its units that are permanently gone.
    pub(super) fn forget(&mut self, forgotten: u32) {
        self.terms.get_or_insert_default().forgotten = forgotten;
    }
}

/// One share for each guard.
#[derive(Debug)]
pub(super) enum Shares {
    /// Nearly every hold has one guard.
    One(Share),
    Many(Vec<Share>),
}

impl Shares {
    pub(super) const fn new() -> Self {
        Self::Many(Vec::new())
    }

    pub(super) fn push(&mut self, share: Share) {
        match std::mem::replace(self, Self::new()) {
            Self::One(first) => *self = Self::Many(vec![first, share]),
            Self::Many(shares) if shares.is_empty() => *self = Self::One(share),
            Self::Many(mut shares) => {
                shares.push(share);
                *self = Self::Many(shares);
            }
        }
    }

    /// Removes the share of `attempt`.
    pub(super) fn remove(&mut self, attempt: u64) {
        match self {
            Self::One(share) if share.attempt == attempt => *self = Self::new(),
            Self::One(_) => {}
            Self::Many(shares) => shares.retain(|share| share.attempt != attempt),
        }
    }

    pub(super) fn get(&self, attempt: u64) -> Option<&Share> {
        let mut shares = self.as_slice().iter();
        shares.find(|share| share.attempt == attempt)
    }

    pub(super) fn get_mut(&mut self, attempt: u64) -> Option<&mut Share> {
        let shares = match self {
            Self::One(share) => slice::from_mut(share),
            Self::Many(shares) => shares.as_mut_slice(),
        };
        shares.iter_mut().find(|share| share.attempt == attempt)
    }

    pub(super) fn as_slice(&self) -> &[Share] {
        match self {
            Self::One(share) => slice::from_ref(share),
            Self::Many(shares) => shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_come_and_go() {
        let share = |attempt| Share::new(attempt, Lease::default(), Terms::default());
        let attempts = |shares: &Shares| {
            let shares = shares.as_slice().iter();
            shares.map(|share| share.attempt).collect::<Vec<_>>()
        };
        let mut shares = Shares::new();
        for (push, remove, left) in [
            (&[1][..], &[2][..], &[1][..]),
            (&[], &[1], &[]),
            (&[3, 4, 5], &[4], &[3, 5]),
            (&[], &[3, 5], &[]),
            (&[6], &[], &[6]),
        ] {
            push.iter().for_each(|&attempt| shares.push(share(attempt)));
            remove.iter().for_each(|&attempt| shares.remove(attempt));
            assert_eq!(attempts(&shares), left);
        }
        shares.push(share(7));
        for attempt in [6, 7] {
            shares.get_mut(attempt).unwrap().forget(2);
            assert_eq!(shares.get(attempt).map(Share::forgotten), Some(2));
        }
        assert!(shares.get(8).is_none());
    }
}
