//! The handle of a job.

use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlatch_core::{
    Client, Error, ErrorKind,
    family::{Internals, Key, Name, NameError},
};

use crate::{
    JobHolder, JobRecord, JobRun, Once, inspect,
    options::{Given, Options, Plan},
    run, serve,
    slot::millis,
};

/// A job under one name, of which each slot runs once over all processes that use the same server
/// and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name or option.
///
/// * **Slots**: a run claims a slot, and not a time of running. [`every`](Self::every) and `cron`
///   have slots of time, by the *server's* clock, so the clocks of processes do not matter unless
///   the caller names the instant with [`at`](Self::at).
///   [`gap`](Self::gap) has a slot after each run, and [`slot`](Self::slot) one for a key of the
///   caller. A job has one schedule.
/// * **Once**: at most one run of the job is under way at a time, and each slot has at most one
///   recorded success. A slot of time before the last success counts as done. So a change of the
///   period neither repeats a slot nor blocks the next one.
/// * **A claim** is a renewed hold with a fencing token. The work is dropped before the server can
///   give the claim to another process. A process that dies costs one lease, 30 s by default.
/// * **Failure**: a slot whose work failed, overran, was dropped, or whose process died is open
///   again while [`retries`](Self::retries) remain, 3 by default.
/// * **Shutdown**: [`Client::close`] lets a run that is under way go on until the end of its grace,
///   and records how it ended. [`JobRun`] can [tell](redlatch_core::Held::ending) the work in time.
/// * **Effect and record are two steps.** A process that dies between them leaves a slot that runs
///   again. [`JobRun::slot`] and the token are the key with which the effect is made once: the slot
///   is the same, and the token is greater.
/// * **Records** live for two periods and for a week at least, in one hash per job. Their loss, by
///   a failover or a restart without persistence, makes the present slot run again.
///
/// # Examples
///
/// ```no_run
/// # async fn migrate() -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example() -> Result<(), redlatch::Error> {
/// use redlatch::Client;
/// use redlatch::once::{JobRun, Once};
///
/// let client = Client::connect("redis://localhost").await?;
/// let job = client.once("migration").slot("v42").retries(2);
/// match job.run(async |_: &JobRun| migrate().await).await? {
///     Once::Ran(()) | Once::Done(_) => println!("the schema is that of v42"),
///     Once::UnderWay(holder) => println!("{holder}"),
///     other => println!("not migrated: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Job {
    client: Client,
    key: Result<Key, NameError>,
    class: Arc<str>,
    options: Options,
}

impl Job {
    /// Creates a handle of the job called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. The first call that would send a request reports an invalid name as
    /// `InvalidName`. A well-formed `{tag}` in the name is kept, so that names with that tag share
    /// a hash slot.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self {
            client: client.clone(),
            key: Name::parse(name.as_ref()).map(|name| client.key(&name)),
            class: Arc::default(),
            options: Options::default(),
        }
    }

    /// Labels this handle's metrics and events with `class`, for example what the job is for. Names
    /// are never used as labels.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self
    }

    /// Runs the job once per `period`, 1 ms to ten years: in each slot from
    /// `offset + n × period` since 1970 in UTC, by the server's clock.
    ///
    /// A day is 24 hours, which shifts against local time when that changes; `cron` follows local
    /// time. A job that has never run runs in the slot that is under way.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.options.set(Given::Every(period));
        self
    }

    /// Lets the slots of [`every`](Self::every) begin `offset` later: below the period, 0 by
    /// default. With a period of a day, this is the time of day in UTC.
    #[must_use]
    pub fn offset(mut self, offset: Duration) -> Self {
        self.options.offset = Some(offset);
        self
    }

    /// Runs the job `gap` after the end of the run before, 1 ms to ten years, by the server's
    /// clock. The end of a slot's last attempt counts, whatever its outcome.
    #[must_use]
    pub fn gap(mut self, gap: Duration) -> Self {
        self.options.set(Given::Gap(gap));
        self
    }

    /// Runs the job once for `key`, at most 512 bytes: a date, the number of a version, the id of
    /// an order.
    ///
    /// The job remembers its keys for [`keep`](Self::keep) after their last run, and 1,000 of them,
    /// failed ones included. A further key is refused with `OutOfRange` until one is forgotten.
    #[must_use]
    pub fn slot(mut self, key: &str) -> Self {
        self.options.set(Given::Slot(key.to_owned()));
        self
    }

    /// Runs the job at the times of a cron `expression` in the time zone `zone`, by the server's
    /// clock. Needs the feature `cron`.
    ///
    /// The expression has five fields (minute, hour, day of month, month, day of week), six with
    /// seconds in front, or seven with a year behind; `@daily` and such are known. The zone is a
    /// name of the IANA database, such as `Europe/Berlin`, as compiled into this program.
    ///
    /// A local time that a change to summer time skips is the end of the skipped stretch. Times
    /// that fall together are one slot: `*/20 2 * * *` runs once on the night that skips from 2:00
    /// to 3:00. A local time that occurs twice is its first occurrence. An expression that fires in
    /// each hour of a day, such as `*/5 * * * *`, fires in both passes of a doubled hour.
    ///
    /// A slot is an instant. If you move a daily job from 3:00 to 5:00 at noon, today's 5:00 is a
    /// new slot, and the job runs once more today.
    #[cfg(feature = "cron")]
    #[must_use]
    pub fn cron(mut self, expression: &str, zone: &str) -> Self {
        match crate::cron::Cron::parse(expression, zone) {
            Ok(cron) => self.options.set(Given::Cron(Arc::new(cron))),
            Err(fault) => self.options.wrong(format!("cannot be scheduled: {fault}")),
        }
        self
    }

    /// Means the slot of `every` or `cron` that contains `instant`, instead of the present one: for
    /// [`run`](Self::run) by a scheduler of another kind, which passes the instant for which it
    /// fires.
    ///
    /// Without it, a scheduler whose clock is ahead of the server's gets the slot before, finds it
    /// done, and skips its own. The slot may start at most an hour after the server's time.
    ///
    /// This is the only option with which a clock of a process matters. A caller whose clock is
    /// ahead runs its slots early, and others find them done.
    #[must_use]
    pub fn at(mut self, instant: SystemTime) -> Self {
        match instant.duration_since(UNIX_EPOCH) {
            Ok(_) => self.options.at = Some(millis(instant)),
            Err(_) => self.options.wrong("has `at` before 1970".to_owned()),
        }
        self
    }

    /// Allows `retries` further attempts at a slot after the first, 3 by default. An attempt whose
    /// process died counts, and one that a closing client dropped. With 0, nobody takes over the
    /// slot of a process that dies.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Lets [`serve`](Self::serve) wait for `pause` after a failed attempt. Default: 10 s, or less
    /// if the slots of `every` are too short for all attempts. The next attempt may be that of any
    /// replica. After a lost one it waits for the end of the lease only. [`run`](Self::run) does
    /// not wait.
    #[must_use]
    pub fn retry_pause(mut self, pause: Duration) -> Self {
        self.options.retry_pause = Some(pause);
        self
    }

    /// Runs up to `slots` missed slots of time before the present one, oldest first: 0 by default,
    /// at most 64. A slot is missed if it has begun after the last success, and the next one has
    /// begun as well.
    #[must_use]
    pub fn catch_up(mut self, slots: u32) -> Self {
        self.options.catch_up = slots;
        self
    }

    /// Remembers keyed slots for `keep` after their last run: 7 days by default, 1 ms to ten years.
    /// Goes with [`slot`](Self::slot) only. A later call with another value does not change how
    /// long earlier slots are remembered.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.options.keep = Some(keep);
        self
    }

    /// Drops the work after `max_run`, which counts as a failure. Without it, work may take as long
    /// as it likes.
    #[must_use]
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.options.max_run = Some(max_run);
        self
    }

    /// Sets the lease of a claim, which is renewed while the work runs: 1 s to 365 days; the
    /// client's default otherwise. It is the time that a process that dies costs.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Runs the work if its slot is open, and says what has become of the slot. Never waits for
    /// another run.
    ///
    /// The slot is the present one by the server's clock, or that of [`at`](Self::at); with
    /// [`catch_up`](Self::catch_up) the oldest missed one. The work is polled only while the claim
    /// lasts: each poll reads the clock first.
    ///
    /// # Cost
    ///
    /// One command if there is nothing to run. Three for a run, and one renewal for each third of
    /// the lease.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `InvalidOption`, `InvalidLease`, `WrongKind`; `OutOfRange` if the job has as
    /// many keyed slots as it may remember, if the slot is too far ahead, or if none has begun yet;
    /// `ServerFull`, `NotEnoughReplicas`, `TooManyWaiters`, `Permission`, `Auth`, `Closed`,
    /// `Protocol`. `Unavailable` or `OutcomeUnknown` when the server did not answer within the
    /// client's `patience`; after work that has succeeded, `OutcomeUnknown` means that nobody knows
    /// whether that is on record.
    ///
    /// # Panics
    ///
    /// If the work panics. The run counts as dropped.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any await. Work that has begun is dropped with it; the run is
    /// recorded as dropped in the background, and the attempt counts. If the work had returned
    /// already, its outcome is recorded in the background.
    pub fn run<T, E, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<Once<T, E>, Error>> + use<T, E, F>
    where
        F: AsyncFnOnce(&JobRun) -> Result<T, E>,
        E: fmt::Display,
    {
        // The future owns the job: the compiler cannot always tell that one that borrows is `Send`.
        run::run(self.clone(), work)
    }

    /// Runs each slot when it begins, for ever. Call it on every replica: one of them runs a slot,
    /// and another one takes over if that one fails or dies.
    ///
    /// Sleeps until the next slot begins by the server's clock. While another replica runs, it
    /// looks again when that claim would end. After a failure it waits for
    /// [`retry_pause`](Self::retry_pause). A run that overlaps the next slot delays it. Missed
    /// slots are skipped unless [`catch_up`](Self::catch_up) allows for them. A server that cannot
    /// be reached is tried again.
    ///
    /// The outcome of each run is in the record of the job, in the event `run_ended`, and in the
    /// counter `redlatch_runs_total`.
    ///
    /// # In a task of its own
    ///
    /// In a future that is spawned, the work has to own what it uses: `async move |run: &JobRun| …`
    /// over values without references, such as clones and `Arc`s. The compiler refuses a closure
    /// with a reference in it there, even a `&'static str`, as "not general enough"
    /// (rust-lang/rust#138207). Elsewhere closures may borrow, and those of [`run`](Self::run) may
    /// everywhere.
    ///
    /// # Cost
    ///
    /// About six commands per slot and replica, and as [`run`](Self::run) for a run.
    ///
    /// # Errors
    ///
    /// `InvalidOption`, also for a keyed slot and beside [`at`](Self::at). Otherwise as
    /// [`run`](Self::run), without those that may pass: it ends with `WrongKind`, `Permission`,
    /// `Closed` and the like. `OutOfRange` if a cron expression has no further time.
    ///
    /// # Panics
    ///
    /// If the work panics. The run counts as dropped.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub fn serve<E, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<Infallible, Error>> + use<E, F>
    where
        F: AsyncFnMut(&JobRun) -> Result<(), E>,
        E: fmt::Display,
    {
        serve::serve(self.clone(), work)
    }

    /// Returns the last run that has ended: its slot, who ran it, when, and how it ended. `None` if
    /// there is none on record. A run whose lease has ended counts as lost. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind`, `Permission`, `Auth`, `Closed`; `Unavailable` or
    /// `OutcomeUnknown` when the server did not answer within the client's `patience`.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn last(&self) -> Result<Option<JobRecord>, Error> {
        Ok(inspect::look(self, None).await?.last_run())
    }

    /// Returns the run that is under way; `None` if there is none. Costs one command. The answer
    /// may be outdated on arrival.
    ///
    /// # Errors
    ///
    /// The same as those of [`last`](Self::last).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn holder(&self) -> Result<Option<JobHolder>, Error> {
        Ok(inspect::look(self, None).await?.holder())
    }

    /// Forgets all records of the job, so that its slots are open again with all their attempts.
    /// Returns `false` if there was no job. A run that is under way goes on, and records its
    /// outcome. A replica that sleeps in [`serve`](Self::serve) looks again when its next slot
    /// begins; [`run`](Self::run) runs the present one at once. Costs two commands.
    ///
    /// # Errors
    ///
    /// The same as those of [`last`](Self::last), and `NotEnoughReplicas`. `OutcomeUnknown` if the
    /// records may be forgotten.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the records may be forgotten or not. A request that was sent acts within 5 s
    /// or never, and forgets nothing of a run that begins after it was sent.
    pub async fn reset(&self) -> Result<bool, Error> {
        inspect::reset(self).await
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.key.as_ref().ok().map(Key::name)
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn labels(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    pub(crate) fn key(&self) -> Result<&Key, Error> {
        self.key
            .as_ref()
            .map_err(|error| Error::new(ErrorKind::InvalidName, error.to_string()))
    }

    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        self.options.check(self.key()?.name())
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name())
            .field("schedule", &self.options.schedule)
            .field("retries", &self.options.retries)
            .finish_non_exhaustive()
    }
}
