//! The slots of time. Pure: all times are arguments, in ms since 1970.

#[cfg(feature = "cron")]
use std::sync::Arc;

#[cfg(feature = "cron")]
use crate::cron::Cron;

/// When a slot of a job begins.
#[derive(Clone, Debug)]
pub(crate) enum Schedule {
    /// Every `period` ms, `offset` ms after 1970.
    Every { period: u64, offset: u64 },
    /// At the instants of an expression.
    #[cfg(feature = "cron")]
    Cron(Arc<Cron>),
    /// This many ms after the end of the run before.
    Gap(u64),
    /// When its key is first used.
    Key(String),
}

impl Schedule {
    /// Returns the last slot of time that starts at `time` or before; `None` if there is none.
    pub(crate) fn floor(&self, time: u64) -> Option<u64> {
        match self {
            Self::Every { period, offset } => {
                let since = time.checked_sub(*offset)?;
                Some(since - since % period + offset)
            }
            #[cfg(feature = "cron")]
            Self::Cron(cron) => cron.floor(time),
            Self::Gap(_) | Self::Key(_) => None,
        }
    }

    /// Returns the first slot of time that starts after `time`; `None` if there is none.
    pub(crate) fn next(&self, time: u64) -> Option<u64> {
        match self {
            Self::Every { period, offset } => match self.floor(time) {
                Some(slot) => slot.checked_add(*period),
                None => Some(*offset),
            },
            #[cfg(feature = "cron")]
            Self::Cron(cron) => cron.next(time),
            Self::Gap(_) | Self::Key(_) => None,
        }
    }

    /// Returns how long the records have to live for `slots` slots of time after `now`, in ms.
    pub(crate) fn span(&self, now: u64, slots: u32) -> u64 {
        #[cfg(not(feature = "cron"))]
        let _ = now;
        match self {
            Self::Every { period, .. } => period.saturating_mul(slots.into()),
            Self::Gap(gap) => gap.saturating_mul(2),
            Self::Key(_) => 0,
            #[cfg(feature = "cron")]
            Self::Cron(_) => {
                // Distances differ; the slots of the past are about as far apart as those to come.
                let mut last = now;
                for _ in 0..=slots {
                    match self.next(last) {
                        Some(next) => last = next,
                        None => break,
                    }
                }
                (last - now).saturating_mul(2)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_a_period_follow_each_other() {
        let every = Schedule::Every {
            period: 1000,
            offset: 300,
        };
        for (time, floor, next) in [
            (0, None, 300),
            (299, None, 300),
            (300, Some(300), 1300),
            (1299, Some(300), 1300),
            (1300, Some(1300), 2300),
        ] {
            assert_eq!(every.floor(time), floor, "{time}");
            assert_eq!(every.next(time), Some(next), "{time}");
        }
    }
}
