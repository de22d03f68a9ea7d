//! Jobs that run once per slot.

use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    background::Background,
    stop::{Stop, work},
};
use crate::{
    Error,
    once::{JobHolder, JobRecord, JobRun, Once},
};

/// The blocking [`Job`](crate::once::Job): each slot of its schedule runs once, over all
/// processes.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name or option. All calls panic in async code.
///
/// The work runs on a thread of its own. Nothing can stop a thread from outside, so the work asks
/// its [`Stop`] between steps. Work that goes on after a loss may overlap with a run elsewhere; the
/// token protects from that. [`max_run`](Self::max_run) has an effect when the work has returned.
#[derive(Clone)]
pub struct Job {
    inner: crate::once::Job,
    background: Arc<Background>,
}

/// Writes options that the async handle has alike.
macro_rules! options {
    ($($(#[$about:meta])* fn $option:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$about])*
        #[must_use]
        pub fn $option(mut self, $($argument: $type),*) -> Self {
            self.inner = self.inner.$option($($argument),*);
            self
        }
    )*};
}

impl Job {
    pub(super) fn new(inner: crate::once::Job, background: &Arc<Background>) -> Self {
        Self {
            inner,
            background: Arc::clone(background),
        }
    }

    options! {
        /// Labels this handle's metrics and events with `class`.
        fn class(class: &str);
        /// Runs the job once per `period`: in each slot from `offset + n × period` since 1970 in
        /// UTC, by the server's clock.
        fn every(period: Duration);
        /// Lets the slots of [`every`](Self::every) begin `offset` later.
        fn offset(offset: Duration);
        /// Runs the job `gap` after the end of the run before.
        fn gap(gap: Duration);
        /// Runs the job once for `key`.
        fn slot(key: &str);
        /// Means the slot that contains `instant` instead of the present one.
        fn at(instant: SystemTime);
        /// Allows `retries` further attempts at a slot, 3 by default.
        fn retries(retries: u32);
        /// Lets [`serve`](Self::serve) wait for `pause` after a failed attempt, 10 s by default.
        fn retry_pause(pause: Duration);
        /// Runs up to `slots` missed slots before the present one: 0 by default, at most 64.
        fn catch_up(slots: u32);
        /// Remembers keyed slots for `keep` after their last run: 7 days by default.
        fn keep(keep: Duration);
        /// Counts work that takes longer than `max_run` as failed.
        fn max_run(max_run: Duration);
        /// Sets the lease of a claim, which is renewed while the work runs: 1 s to 365 days.
        fn lease(lease: Duration);
    }

    /// Runs the job at the times of a cron `expression` in the time zone `zone`. Needs the feature
    /// `cron`. See [`Job::cron`](crate::once::Job::cron).
    #[cfg(feature = "cron")]
    #[must_use]
    pub fn cron(mut self, expression: &str, zone: &str) -> Self {
        self.inner = self.inner.cron(expression, zone);
        self
    }

    /// Runs the work if its slot is open, and says what has become of the slot. Never waits for
    /// another run. See [`Job::run`](crate::once::Job::run).
    ///
    /// # Errors
    ///
    /// Those of `run` of the async handle.
    ///
    /// # Panics
    ///
    /// If the work panics.
    #[track_caller]
    pub fn run<T, E>(
        &self,
        work: impl FnOnce(&JobRun, Stop<'_>) -> Result<T, E> + Send,
    ) -> Result<Once<T, E>, Error>
    where
        T: Send,
        E: fmt::Display + Send,
    {
        let job = self.inner.run(async |run: &JobRun| {
            let stop = Stop::from(run);
            work::run(move || work(run, stop))
        });
        self.background.wait(job)
    }

    /// Runs each slot when it begins, for ever. See [`Job::serve`](crate::once::Job::serve).
    ///
    /// # Errors
    ///
    /// Those of `serve` of the async handle.
    ///
    /// # Panics
    ///
    /// If the work panics.
    #[track_caller]
    pub fn serve<E>(
        &self,
        mut work: impl FnMut(&JobRun, Stop<'_>) -> Result<(), E> + Send,
    ) -> Result<Infallible, Error>
    where
        E: fmt::Display + Send,
    {
        let job = self.inner.serve(async |run: &JobRun| {
            let stop = Stop::from(run);
            work::run(|| work(run, stop))
        });
        self.background.wait(job)
    }

    /// Returns the last run that has ended. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `last` of the async handle.
    #[track_caller]
    pub fn last(&self) -> Result<Option<JobRecord>, Error> {
        self.background.wait(self.inner.last())
    }

    /// Returns the run that is under way. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `holder` of the async handle.
    #[track_caller]
    pub fn holder(&self) -> Result<Option<JobHolder>, Error> {
        self.background.wait(self.inner.holder())
    }

    /// Forgets all records of the job. Returns `false` if there was no job. Costs two commands.
    ///
    /// # Errors
    ///
    /// Those of `reset` of the async handle.
    #[track_caller]
    pub fn reset(&self) -> Result<bool, Error> {
        self.background.wait(self.inner.reset())
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
