//! The options of a job, and what is wrong with them.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind,
    family::{Lease, LeaseError, invalid, millis},
};

use crate::{decide::Rules, schedule::Schedule};

/// The longest period, gap or memory: ten years.
const LONGEST: Duration = Duration::from_secs(3653 * 24 * 60 * 60);

/// The longest key of a slot, in bytes.
const KEY: usize = 512;

/// The most missed slots that a job catches up on.
const CATCH_UP: u32 = 64;

/// The attempts at a slot after the first, unless the caller chooses. Without any, a process that
/// dies would take its slot with it.
const RETRIES: u32 = 3;

/// The pause after a failed attempt, unless the slots are short.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The most attempts for whose sake that pause is shorter.
const FITTING: u32 = 100;

/// How long records live at least.
const RECORDS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The options as the caller gave them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The schedule, and the method that has set it.
    pub(crate) schedule: Option<(&'static str, Schedule)>,
    pub(crate) offset: Option<Duration>,
    /// The error of the first invalid option.
    pub(crate) fault: Option<String>,
    pub(crate) at: Option<u64>,
    pub(crate) retries: Option<u32>,
    /// `None` for the default, which depends on the schedule.
    pub(crate) retry_pause: Option<Duration>,
    pub(crate) catch_up: u32,
    pub(crate) keep: Option<Duration>,
    pub(crate) max_run: Option<Duration>,
    pub(crate) lease: Option<Duration>,
}

/// The options, checked.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) schedule: Schedule,
    /// The rules for a caller that waits between attempts.
    pub(crate) rules: Rules,
    /// How long a keyed slot is remembered; `None` for slots of time.
    pub(crate) keep: Option<Duration>,
    pub(crate) max_run: Option<Duration>,
    pub(crate) lease: Option<Lease>,
}

impl Options {
    /// Sets the schedule, which may be set once.
    pub(crate) fn set(&mut self, name: &'static str, schedule: Result<Schedule, String>) {
        match (schedule, &self.schedule) {
            (Err(fault), _) => self.wrong(fault),
            (_, Some((other, _))) => self.wrong(format!(
                "has `{other}` and `{name}`; a job has one schedule"
            )),
            (Ok(schedule), None) => self.schedule = Some((name, schedule)),
        }
    }

    /// Records what is wrong with an option. The first fault is reported.
    pub(crate) fn wrong(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    pub(crate) fn retries(&self) -> u32 {
        self.retries.unwrap_or(RETRIES)
    }

    /// Checks the options of the job called `name`.
    pub(crate) fn check(&self, name: &str) -> Result<Plan, Error> {
        let invalid = |fault| invalid(format!("the job {name:?} {fault}"));
        let schedule = self.schedule().map_err(invalid)?;
        let keyed = matches!(schedule, Schedule::Key(_));
        let lease = self.lease.map(Lease::renewed).transpose();
        let lease = lease.map_err(|error: LeaseError| {
            let message = format!("the job {name:?}: {error}");
            Error::with_reason(ErrorKind::InvalidLease, message, error)
        })?;
        Ok(Plan {
            schedule,
            rules: Rules {
                limit: u64::from(self.retries()) + 1,
                pause: millis(self.pause()),
                catch_up: self.catch_up,
                at: self.at,
            },
            keep: keyed.then(|| self.keep.unwrap_or(RECORDS)),
            max_run: self.max_run,
            lease,
        })
    }

    /// Returns the pause after a failed attempt. All attempts at a slot have to fit into it, up to
    /// [`FITTING`].
    fn pause(&self) -> Duration {
        self.retry_pause.unwrap_or_else(|| match self.schedule {
            Some((_, Schedule::Every { period, .. })) => {
                let attempts = self.retries().saturating_add(1).min(FITTING);
                RETRY_PAUSE.min(Duration::from_millis(period) / attempts)
            }
            _ => RETRY_PAUSE,
        })
    }

    /// Returns what is wrong with the options besides the schedule and the lease.
    fn check_with(&self, schedule: &Schedule) -> Result<(), String> {
        let timed = !matches!(schedule, Schedule::Gap(_) | Schedule::Key(_));
        if self.at.is_some() && !timed {
            return Err("has `at`, which goes with `every` and `cron` only".to_owned());
        }
        if self.catch_up > CATCH_UP {
            return Err(format!(
                "catches up on {} slots; at most {CATCH_UP} are allowed",
                self.catch_up
            ));
        }
        if self.catch_up > 0 && !timed {
            return Err("has `catch_up`, which goes with `every` and `cron` only".to_owned());
        }
        if self.catch_up > 0 && self.at.is_some() {
            return Err("has `catch_up` beside `at`, which means one slot only".to_owned());
        }
        if self.keep.is_some() && !matches!(schedule, Schedule::Key(_)) {
            return Err("has `keep`, which goes with `slot` only".to_owned());
        }
        if let Some(pause) = self.retry_pause.filter(|pause| *pause > LONGEST) {
            return Err(format!(
                "has a retry_pause of {pause:?}; at most ten years are allowed"
            ));
        }
        for (what, time) in [("keep", self.keep), ("max_run", self.max_run)] {
            time.map(|time| span(what, time)).transpose()?;
        }
        Ok(())
    }

    /// Returns the schedule, or what is wrong with the options besides the lease.
    fn schedule(&self) -> Result<Schedule, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let Some((_, mut schedule)) = self.schedule.clone() else {
            return Err("has no schedule: call `every`, `cron`, `gap` or `slot`".to_owned());
        };
        if let Some(given) = self.offset {
            let Schedule::Every { period, offset } = &mut schedule else {
                return Err("has `offset`, which goes with `every` only".to_owned());
            };
            let period = Duration::from_millis(*period);
            if given >= period {
                return Err(format!(
                    "has an offset of {given:?}, which is not below its period of {period:?}"
                ));
            }
            *offset = millis(given);
        }
        self.check_with(&schedule)?;
        Ok(schedule)
    }
}

impl Plan {
    /// Returns how long the server keeps the records of the job.
    pub(crate) fn ttl(&self, now: u64) -> Duration {
        let slots = self.rules.catch_up.saturating_add(2);
        let span = self.schedule.span(now, slots);
        Duration::from_millis(span)
            .max(self.keep.unwrap_or_default())
            .max(RECORDS)
            .min(2 * LONGEST)
    }
}

/// Checks a span of 1 ms to ten years, and returns it in whole ms.
pub(crate) fn span(what: &str, span: Duration) -> Result<u64, String> {
    if span < Duration::from_millis(1) || span > LONGEST {
        return Err(format!(
            "has a {what} of {span:?}; 1 ms to ten years are allowed"
        ));
    }
    Ok(millis(span))
}

/// Checks the key of a slot.
pub(crate) fn keyed(key: &str) -> Result<Schedule, String> {
    match key.len() {
        ..=KEY => Ok(Schedule::Key(key.to_owned())),
        bytes => Err(format!(
            "has a slot of {bytes} bytes; at most {KEY} are allowed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_attempts_fit_into_a_slot_up_to_a_hundred() {
        let seconds = Duration::from_secs;
        let every = |seconds: u64| Schedule::Every {
            period: seconds * 1000,
            offset: 0,
        };
        for (schedule, retries, pause) in [
            (every(3600), 3, seconds(10)),
            (every(6), 2, seconds(2)),
            (every(6), 0, seconds(6)),
            (every(300), 99, seconds(3)),
            (every(300), u32::MAX, seconds(3)),
            (every(3600), u32::MAX, seconds(10)),
            (Schedule::Gap(1000), 3, seconds(10)),
        ] {
            let options = Options {
                schedule: Some(("", schedule)),
                retries: Some(retries),
                ..Options::default()
            };
            assert_eq!(options.pause(), pause);
        }
    }
}
