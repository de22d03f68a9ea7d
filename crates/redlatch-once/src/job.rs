//! The handle of a job.

use std::{
    convert::Infallible,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redlatch_core::{
    Client, Error, ErrorKind,
    family::{Handle, Internals},
};

use crate::{
    JobHolder, JobRecord, JobRun, Once, Slot,
    decide::View,
    options::{self, Options, Plan},
    run,
    schedule::Schedule,
    scripts,
    slot::millis,
};

/// How often a caller looks again because the job has changed in between.
pub(crate) const LOOKS: u32 = 100;

/// A job under one name. Each slot of its schedule runs once, over all processes that use the same
/// server and prefix.
///
/// `Client::once` creates a handle.
///
/// * **Slots**: a run claims a slot, and not a time of running. [`every`](Self::every) and `cron`
///   have slots of time, by the *server's* clock. So the clocks of processes do not matter unless
///   you name the instant with [`at`](Self::at). [`gap`](Self::gap) has a slot after each run, and
///   [`slot`](Self::slot) has one for a key of yours. A job has one schedule.
/// * **Once**: at most one run of the job is under way at a time, and each slot has at most one
///   recorded success. A slot of time before the last success counts as done. So a change of the
///   period neither repeats a slot nor blocks the next one.
/// * **A claim** is a renewed hold with a fencing token. The work is dropped before the server can
///   give the claim to another process. A process that dies costs one lease, 30 s by default.
/// * **Failure**: a slot is open again while [`retries`](Self::retries) remain, 3 by default, if
///   its work failed, overran or was dropped, or if its process died.
/// * **Shutdown**: [`Client::close`] lets a run that is under way continue until the end of its
///   grace, and records the outcome. The work can await [`ending`](redlatch_core::Held::ending) of
///   its [`JobRun`].
/// * **Effect and record are two steps.** A process that dies between them leaves a slot that runs
///   again. Use [`JobRun::slot`] and the token as an idempotency key for the effect. The slot of
///   the second run is the same, and its token is greater.
/// * **Records** live for two periods and for a week at least, in one hash per job. If a failover
///   or a restart without persistence loses them, the present slot runs again.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// use redlatch::once::{JobRun, Once};
///
/// let job = client.once("migration").slot("v42").retries(2);
/// let migrate = async |run: &JobRun| {
///     println!("migrate to {}", run.slot());
///     Ok::<_, std::io::Error>(())
/// };
/// assert!(matches!(job.run(migrate).await?, Once::Ran(())));
/// assert!(matches!(job.run(migrate).await?, Once::Done(_)), "in each later start");
/// # Ok(())
/// # }
/// ```
#[doc(alias("cron", "scheduler", "idempotency", "run once"))]
#[derive(Clone, Debug)]
#[must_use = "nothing runs until `run` or `serve` is awaited"]
pub struct Job {
    pub(crate) handle: Handle,
    options: Options,
}

impl Job {
    /// Creates a handle of the job called `name`, as `Client::once` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self {
            handle: Handle::new(client, "job", name.as_ref()),
            options: Options::default(),
        }
    }

    /// Labels the metrics and events of this handle with `class`, for example with the purpose of
    /// the job. Names are never used as labels.
    pub fn class(mut self, class: &str) -> Self {
        self.handle = self.handle.class(class);
        self
    }

    /// Runs the job once per `period`, 1 ms to ten years: in each slot from `offset + n × period`
    /// since 1970 in UTC, by the server's clock.
    ///
    /// A day is 24 hours, which shifts against local time when that changes; `cron` follows local
    /// time. A job that has never run runs in the slot that is under way.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::{JobRun, Once};
    ///
    /// let hour = Duration::from_secs(3600);
    /// let nightly = client.once("report").every(24 * hour).offset(3 * hour); // 03:00 UTC
    /// let work = async |_: &JobRun| Ok::<_, String>("sent");
    /// let first = nightly.run(work).await?;
    /// assert_eq!(first.ran(), Some("sent"));
    /// assert!(matches!(nightly.run(work).await?, Once::Done(_)), "until 03:00");
    /// tokio::time::sleep(24 * hour).await;
    /// assert!(matches!(nightly.run(work).await?, Once::Ran(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn every(mut self, period: Duration) -> Self {
        let period = options::span("period", period);
        let every = period.map(|period| Schedule::Every { period, offset: 0 });
        self.options.set("every", every);
        self
    }

    /// Lets the slots of [`every`](Self::every) begin `offset` later: below the period, 0 by
    /// default. With a period of a day, this is the time of day in UTC.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let backup = client.once("backup").every(24 * hour).offset(2 * hour); // at 02:00 UTC
    /// let ran = backup.run(async |run: &JobRun| Ok::<_, String>(run.slot().to_string())).await?;
    /// assert!(ran.ran().is_some_and(|slot| slot.ends_with("T02:00:00Z")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn offset(mut self, offset: Duration) -> Self {
        self.options.offset = Some(offset);
        self
    }

    /// Runs the job `gap` after the end of the run before, 1 ms to ten years, by the server's
    /// clock. The end of a slot's last attempt counts, whatever its outcome.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::{JobRun, Once};
    ///
    /// let poll = client.once("poll-mail").gap(Duration::from_secs(60));
    /// let work = async |_: &JobRun| Ok::<_, String>(());
    /// assert!(matches!(poll.run(work).await?, Once::Ran(())));
    /// assert!(!matches!(poll.run(work).await?, Once::Ran(())), "a minute later");
    /// # Ok(())
    /// # }
    /// ```
    pub fn gap(mut self, gap: Duration) -> Self {
        let gap = options::span("gap", gap).map(Schedule::Gap);
        self.options.set("gap", gap);
        self
    }

    /// Runs the job once for `key`, at most 512 bytes: a date, the number of a version, the id of
    /// an order.
    ///
    /// The job remembers its keys for [`keep`](Self::keep) after their last run, and 1,000 of them,
    /// with the failed ones. A further key fails with `OutOfRange` until a key is forgotten.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let mail = async |_: &JobRun| Ok::<_, String>(());
    /// let orders = client.once("confirmation-mail");
    /// assert!(orders.clone().slot("order 42").run(mail).await?.ran().is_some());
    /// assert!(orders.clone().slot("order 42").run(mail).await?.ran().is_none()); // sent
    /// assert!(orders.slot("order 43").run(mail).await?.ran().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn slot(mut self, key: &str) -> Self {
        self.options.set("slot", options::keyed(key));
        self
    }

    /// Runs the job at the times of a cron `expression` in the time zone `zone`, by the server's
    /// clock. Needs the feature `cron`.
    ///
    /// The expression has five fields (minute, hour, day of month, month, day of week), six with
    /// seconds in front, or seven with a year behind; `@daily` and such are known. The zone is a
    /// name of the IANA database, such as `Europe/Berlin`, as compiled into this program.
    ///
    /// ```no_run
    /// # fn example(client: redlatch::Client) {
    /// // At 06:30 on working days, in local time.
    /// let digest = client.once("digest").cron("30 6 * * 1-5", "Europe/Berlin");
    /// # }
    /// ```
    ///
    /// A local time that a change to summer time skips is the end of the skipped stretch. Times
    /// that fall together are one slot: `*/20 2 * * *` runs once on the night that skips from 2:00
    /// to 3:00. A local time that occurs twice is its first occurrence. An expression that fires in
    /// each hour of a day, such as `*/5 * * * *`, fires in both passes of a doubled hour.
    ///
    /// A slot is an instant. If you move a daily job from 3:00 to 5:00 at noon, today's 5:00 is a
    /// new slot, and the job runs once more today.
    #[cfg(feature = "cron")]
    pub fn cron(mut self, expression: &str, zone: &str) -> Self {
        let cron = crate::cron::Cron::parse(expression, zone)
            .map(|cron| Schedule::Cron(cron.into()))
            .map_err(|fault| format!("cannot be scheduled: {fault}"));
        self.options.set("cron", cron);
        self
    }

    /// Selects the slot of `every` or `cron` that contains `instant`, instead of the present one.
    /// Use this option for [`run`](Self::run) under a scheduler of another kind, and pass the
    /// instant for which the scheduler fires.
    ///
    /// Without this option, a scheduler whose clock is ahead of the server's gets the slot before,
    /// which is done, and skips its own. The slot may start at most an hour after the server's
    /// time.
    ///
    /// This is the only option with which a clock of a process matters. A caller whose clock is
    /// ahead runs its slots early, and the slots are done for the other callers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::{Duration, SystemTime};
    /// use redlatch::once::JobRun;
    ///
    /// # let server_time = async |_: &JobRun| Ok::<_, String>(());
    /// # let look = client.once("clock").every(Duration::from_millis(1));
    /// # look.run(server_time).await?;
    /// # let fires_for: SystemTime = look.last().await?.expect("the run").began;
    /// // A scheduler of another kind fires for an instant.
    /// let invoices = client.once("invoices").every(Duration::from_secs(60)).at(fires_for);
    /// let slot = invoices.run(async |run: &JobRun| Ok::<_, String>(run.slot().clone())).await?;
    /// let begins = slot.ran().and_then(|slot| slot.instant());
    /// assert!(begins <= Some(fires_for), "the slot that contains the instant");
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(mut self, instant: SystemTime) -> Self {
        match instant.duration_since(UNIX_EPOCH) {
            Ok(_) => self.options.at = Some(millis(instant)),
            Err(_) => self.options.wrong("has `at` before 1970".to_owned()),
        }
        self
    }

    /// Allows `retries` further attempts at a slot after the first, 3 by default. An attempt counts
    /// if its process died, or if a closing client dropped its work. With 0, no other process takes
    /// over the slot of a process that dies.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::{JobRun, Once};
    ///
    /// let job = client.once("import").slot("2026-11-22").retries(1);
    /// let fails = async |_: &JobRun| Err::<(), _>("the file is not there yet");
    /// assert!(matches!(job.run(fails).await?, Once::Failed(_)));
    /// assert!(matches!(job.run(fails).await?, Once::Failed(_)));
    /// assert!(matches!(job.run(fails).await?, Once::Exhausted(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = Some(retries);
        self
    }

    /// Lets [`serve`](Self::serve) wait for `pause` after a failed attempt. Default: 10 s, or less
    /// if the slots of `every` are too short for all attempts, but at least a hundredth of the
    /// period. The next attempt may be that of any replica. After a lost one it waits for the end
    /// of the lease only. [`run`](Self::run) does not wait.
    ///
    /// ```no_run
    /// # async fn fetch() -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// let rates = client.once("rates").every(Duration::from_secs(3600));
    /// // The bank's service is often down for a minute or two.
    /// let rates = rates.retries(5).retry_pause(Duration::from_secs(120));
    /// rates.serve(async |_: &JobRun| fetch().await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry_pause(mut self, pause: Duration) -> Self {
        self.options.retry_pause = Some(pause);
        self
    }

    /// Runs up to `slots` missed slots of time before the present one, oldest first: 0 by default,
    /// at most 64. A slot is missed if it has begun after the last success, and the next one has
    /// begun as well.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let report = client.once("report").every(hour).catch_up(24);
    /// let send = async |run: &JobRun| Ok::<_, String>(run.slot().clone());
    /// let first = report.run(send).await?.ran().and_then(|slot| slot.instant()).expect("a time");
    /// tokio::time::sleep(3 * hour).await; // an outage
    /// let next = report.run(send).await?.ran().and_then(|slot| slot.instant());
    /// assert_eq!(next, Some(first + hour)); // not the present slot
    /// # Ok(())
    /// # }
    /// ```
    pub fn catch_up(mut self, slots: u32) -> Self {
        self.options.catch_up = slots;
        self
    }

    /// Remembers keyed slots for `keep` after their last run: 7 days by default, 1 ms to ten years.
    /// Goes with [`slot`](Self::slot) only. A later call with another value does not change how
    /// long earlier slots are remembered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let reminder = client.once("reminder").slot("order 42").keep(hour);
    /// let send = async |_: &JobRun| Ok::<_, String>(());
    /// assert!(reminder.run(send).await?.ran().is_some());
    /// assert!(reminder.run(send).await?.ran().is_none()); // on record
    /// tokio::time::sleep(2 * hour).await;
    /// assert!(reminder.run(send).await?.ran().is_some()); // the key is forgotten
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep(mut self, keep: Duration) -> Self {
        self.options.keep = Some(keep);
        self
    }

    /// Drops the work after `max_run`, which counts as a failure. Without it, work may take as long
    /// as it likes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::{JobError, JobRun, Once};
    ///
    /// let limit = Duration::from_secs(600);
    /// let import = client.once("import").slot("2026-11-28").max_run(limit);
    /// let hangs = async |_: &JobRun| std::future::pending::<Result<(), String>>().await;
    /// let ran = import.run(hangs).await?;
    /// assert!(matches!(ran, Once::Failed(JobError::Overran(after)) if after == limit));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.options.max_run = Some(max_run);
        self
    }

    /// Sets the lease of a claim, which is renewed while the work runs: 1 s to 365 days; the
    /// client's default otherwise. It is the time that a process that dies costs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// // If the process dies, another process takes over the slot after 5 s.
    /// let import = client.once("import").slot("2026-11-28").lease(Duration::from_secs(5));
    /// let ran = import.run(async |run: &JobRun| Ok::<_, String>(run.remaining())).await?;
    /// assert!(ran.ran() < Some(Duration::from_secs(5)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Runs the work if its slot is open, and returns the state of the slot. Never waits for
    /// another run.
    ///
    /// The slot is the present one by the server's clock, or that of [`at`](Self::at); with
    /// [`catch_up`](Self::catch_up) the oldest missed one. The work is polled only while the claim
    /// lasts: each poll reads the clock first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::{JobRun, Once};
    ///
    /// let job = client.once("report").every(Duration::from_secs(3600));
    /// match job.run(async |run: &JobRun| Ok::<_, String>(run.token())).await? {
    ///     Once::Ran(token) => println!("done with token {token}"),
    ///     Once::Done(record) => println!("already done: {record}"),
    ///     Once::UnderWay(holder) => println!("{holder}"),
    ///     other => println!("not done: {other:?}"),
    /// }
    /// # assert!(job.last().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One command if there is nothing to run. Three for a run, and one renewal for each third of
    /// the lease.
    ///
    /// # Errors
    ///
    /// `InvalidOption`, `InvalidLease`, `TooManyWaiters`. `OutOfRange` if the job has as many keyed
    /// slots as it may remember, if the slot is too far ahead, or if no slot has begun yet.
    /// Otherwise those of [every call](Error#errors-of-every-call). After work that has succeeded,
    /// `OutcomeUnknown` means that the success may be on record or not.
    ///
    /// # Panics
    ///
    /// If the work panics. The run counts as dropped.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. Work that has begun is dropped with it. The run is
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

    /// Runs each slot when the slot begins, forever. Call this method on every replica: one of them
    /// runs a slot, and another one takes over if the first one fails or dies.
    ///
    /// The call sleeps until the next slot begins by the server's clock. While another replica runs
    /// the slot, the call checks again when that claim would end. After a failure, the call waits
    /// for [`retry_pause`](Self::retry_pause). A run that overlaps the next slot delays the next
    /// slot. Missed slots are skipped unless [`catch_up`](Self::catch_up) allows for them. The call
    /// repeats requests to a server that is unreachable.
    ///
    /// The outcome of each run is in the record of the job, in the event `run_ended`, and in the
    /// counter `redlatch_runs_total`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn refresh() -> Result<(), std::io::Error> { Ok(()) }
    /// # fn example(client: redlatch::Client) {
    /// use redlatch::once::JobRun;
    ///
    /// // On each replica. One of them refreshes every minute.
    /// let job = client.once("refresh").every(Duration::from_secs(60));
    /// tokio::spawn(job.serve(async move |run: &JobRun| {
    ///     println!("slot {} with token {}", run.slot(), run.token());
    ///     refresh().await
    /// }));
    /// # }
    /// ```
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
    /// `InvalidOption`, also for a keyed slot and together with [`at`](Self::at). `OutOfRange` if a
    /// cron expression has no further time. Otherwise as [`run`](Self::run), without the
    /// [transient](Error::is_transient) ones: the call ends with `WrongKind`, `Permission`,
    /// `Closed` and the like.
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
        run::serve(self.clone(), work)
    }

    /// Returns the last run that has ended: its slot, process, times and outcome. Returns `None` if
    /// no run is on record. A run whose lease has ended counts as lost. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::{JobOutcome, JobRun};
    ///
    /// let import = client.once("import").slot("2026-11-28");
    /// assert!(import.last().await?.is_none());
    /// let _ = import.run(async |_: &JobRun| Err::<(), _>("no file")).await?;
    /// let last = import.last().await?.expect("a run");
    /// assert_eq!(last.outcome, JobOutcome::Failed);
    /// assert_eq!(last.error.as_deref(), Some("no file"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn last(&self) -> Result<Option<JobRecord>, Error> {
        Ok(self.look(None).await?.last_run())
    }

    /// Returns the run that is under way. Returns `None` if no run is under way. Costs one command.
    /// The answer may be outdated on arrival.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let import = client.once("import").slot("2026-11-28");
    /// let ran = import.run(async |run: &JobRun| {
    ///     let holder = import.holder().await?.expect("this run");
    ///     assert_eq!(holder.token, run.token());
    ///     Ok::<_, redlatch::Error>(())
    /// }).await?;
    /// assert!(ran.is_done() && import.holder().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn holder(&self) -> Result<Option<JobHolder>, Error> {
        Ok(self.look(None).await?.holder())
    }

    /// Forgets all records of the job, so its slots are open again with all their attempts. Returns
    /// `false` if the job does not exist. A run that is under way continues, and records its
    /// outcome. A replica that sleeps in [`serve`](Self::serve) checks again when its next slot
    /// begins; [`run`](Self::run) runs the present slot at once. Costs two commands.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let job = client.once("migration").slot("v42");
    /// let work = async |_: &JobRun| Ok::<_, String>(());
    /// job.run(work).await?.ran().expect("the first run");
    /// job.reset().await?; // a backup was restored: migrate again
    /// assert!(job.run(work).await?.ran().is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). After `OutcomeUnknown`, the records may
    /// be forgotten.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the records may be forgotten or not. A request that was sent acts within 5 s
    /// or never, and forgets nothing of a run that begins after it was sent.
    pub async fn reset(&self) -> Result<bool, Error> {
        let resetting = self.handle.client().within_patience(true, self.try_reset());
        self.handle.about(resetting.await)
    }

    async fn try_reset(&self) -> Result<bool, Error> {
        let key = self.handle.key()?;
        for _ in 0..LOOKS {
            let view = self.look(None).await?;
            let call = |op: &_| scripts::reset(key, op, &view);
            if let Some(reset) = self.handle.change(call, scripts::was_reset).await? {
                return Ok(reset);
            }
        }
        Err(self.changing())
    }

    /// Returns the name as it was given. Returns `None` if the name is invalid.
    pub fn name(&self) -> Option<&str> {
        self.handle.name()
    }

    /// Looks at the records of the job, and of a keyed slot.
    pub(crate) async fn look(&self, slot: Option<&Slot>) -> Result<View, Error> {
        let call = scripts::look(self.handle.key()?, slot);
        self.handle.ask(call, scripts::looked).await
    }

    /// Returns the error of a caller that has looked as often as it may.
    pub(crate) fn changing(&self) -> Error {
        let name = self.name().unwrap_or_default();
        let message = format!("the job {name:?} has changed after each of {LOOKS} looks");
        Error::new(ErrorKind::TooManyAttempts, message)
    }

    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        self.options.check(self.handle.key()?.name())
    }
}
