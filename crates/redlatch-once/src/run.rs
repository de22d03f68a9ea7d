//! One run of a job, from the look to the outcome, and the run of each slot when the slot begins.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, poll_fn},
    ops::{ControlFlow, Deref},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use redlatch_core::{
    Error, ErrorKind, Held, LossCause, Released,
    family::{
        AcquireOptions, Internals, OwnerChoice, Primitive, RunEnded, Wait, invalid, while_held,
    },
};

use crate::{
    Job, JobError, JobOutcome, Once, Slot,
    decide::{Intent, Rules, Standing, View, decide},
    job::LOOKS,
    options::Plan,
    record::process,
    schedule::Schedule,
    scripts::SlotClaim,
};

/// A run of a job, with its slot, its attempt, and the hold under which the work runs.
///
/// The run derefs to [`Held`]. Pass the fencing [`token`](Held::token) to the resources that the
/// work writes to. Call [`check`](Held::check) before steps that must not happen after a loss. The
/// work is polled only while the hold lasts, so only code that does not yield needs a check.
///
/// When the client closes, `check` fails and [`ending`](Held::ending) resolves. The work may
/// continue until the end of the grace of [`close`](redlatch_core::Client::close), but not beyond
/// the deadline that the hold had at the call. Its outcome is recorded.
///
/// A run cannot outlive the work:
///
/// ```compile_fail,E0521
/// # fn spawn(_: impl Future<Output = ()> + Send + 'static) {}
/// # async fn example(job: redlatch::once::Job) {
/// job.run(async |run: &redlatch::once::JobRun| {
///     // A task may run for longer than the work, so it cannot have the run.
///     spawn(async move { run.lost().await; });
///     Ok::<(), String>(())
/// })
/// .await;
/// # }
/// ```
#[derive(Debug)]
pub struct JobRun {
    held: Held,
    claim: Arc<SlotClaim>,
    attempt: u32,
}

impl JobRun {
    /// Returns the slot of this run.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let invoices = client.once("invoices").slot("2026-11");
    /// let ran = invoices.run(async |run: &JobRun| {
    ///     let key = format!("invoices/{}", run.slot()); // the same in a second attempt
    ///     Ok::<_, String>(key)
    /// }).await?;
    /// assert_eq!(ran.ran().as_deref(), Some("invoices/2026-11"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn slot(&self) -> &Slot {
        &self.claim.intent.slot
    }

    /// Returns the number of this attempt at the slot, from 1.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::once::JobRun;
    ///
    /// let import = client.once("import").slot("2026-11-28");
    /// let work = async |run: &JobRun| match run.attempt() {
    ///     1 => Err("the file is not there yet"),
    ///     attempt => Ok(attempt),
    /// };
    /// assert_eq!(import.run(work).await?.ran(), None);
    /// assert_eq!(import.run(work).await?.ran(), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns true if the run before lost its claim. The work of that run may be half done, also
    /// for another slot.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let repair = async || {};
    /// use redlatch::once::JobRun;
    ///
    /// let import = client.once("import").slot("2026-11-28");
    /// let ran = import.run(async |run: &JobRun| {
    ///     if run.is_after_loss() {
    ///         repair().await; // the process before died in the middle of its work
    ///     }
    ///     Ok::<_, String>(())
    /// }).await?;
    /// # assert!(ran.is_done());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_after_loss(&self) -> bool {
        self.held.is_after_abandonment()
    }

    /// Runs the work, and records how it ended.
    pub(crate) async fn execute<T, E, F>(
        self,
        max_run: Option<Duration>,
        work: F,
    ) -> Result<Once<T, E>, Error>
    where
        F: AsyncFnOnce(&Self) -> Result<T, E>,
        E: fmt::Display,
    {
        let began = self.held.client().now();
        // The limit and the work are over when this block ends.
        let end = {
            let mut work = pin!(work(&self));
            let mut limit = pin!(self.limit(max_run));
            let limited = poll_fn(|context| match limit.as_mut().poll(context) {
                Poll::Ready(limit) => Poll::Ready(Err(JobError::Overran(limit))),
                Poll::Pending => work.as_mut().poll(context).map_err(JobError::Work),
            });
            while_held(&self.held, true, limited).await
        };
        let ran = self.held.client().now() - began;
        let (outcome, why) = match &end {
            Ok(Ok(_)) => (JobOutcome::Done, String::new()),
            Ok(Err(error @ JobError::Work(_))) => (JobOutcome::Failed, error.to_string()),
            Ok(Err(error @ JobError::Overran(_))) => (JobOutcome::Overran, error.to_string()),
            Err(LossCause::Closed) => (JobOutcome::Dropped, lost(LossCause::Closed)),
            Err(cause) => (JobOutcome::Lost, lost(*cause)),
        };
        self.claim.end(outcome, &why);
        self.report(outcome, &why, ran);
        match end {
            Ok(Ok(value)) => self.record(value).await,
            Ok(Err(error)) => {
                // The background goes on if this fails, and the failure says more.
                let _ = self.held.release().await;
                Ok(Once::Failed(error))
            }
            Err(cause) => Ok(Once::Lost(cause)),
        }
    }

    /// Records a success.
    async fn record<T, E>(self, value: T) -> Result<Once<T, E>, Error> {
        let slot = self.slot().clone();
        let doubt = |cause: &dyn fmt::Display| {
            let message = format!(
                "the work for slot {slot} has succeeded; whether that is on record is unknown: {cause}"
            );
            Error::new(ErrorKind::OutcomeUnknown, message)
        };
        match self.held.release().await {
            // An expired claim that nobody has followed still records its outcome.
            Ok(Released::Free | Released::StillHeld(_) | Released::Expired) => Ok(Once::Ran(value)),
            Ok(Released::TakenOver) => Ok(Once::Lost(LossCause::Taken)),
            Ok(Released::Forgotten) => Ok(Once::Lost(LossCause::Forgotten)),
            Ok(other) => Err(doubt(&other)),
            Err(error) => Err(doubt(&error)),
        }
    }

    /// Resolves with `max_run` after that time; never without it.
    async fn limit(&self, max_run: Option<Duration>) -> Duration {
        match max_run {
            Some(limit) => {
                self.held.client().pause(limit).await;
                limit
            }
            None => std::future::pending().await,
        }
    }

    fn report(&self, outcome: JobOutcome, why: &str, ran: Duration) {
        let ended = RunEnded {
            primitive: self.claim.as_ref(),
            slot: &self.slot().to_string(),
            token: self.held.token(),
            attempt: self.attempt,
            outcome: outcome.as_str(),
            done: outcome == JobOutcome::Done,
            why,
            ran,
        };
        ended.report();
    }
}

impl Deref for JobRun {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

/// Runs the work if its slot is open.
pub(crate) async fn run<T, E, F>(job: Job, work: F) -> Result<Once<T, E>, Error>
where
    F: AsyncFnOnce(&JobRun) -> Result<T, E>,
    E: fmt::Display,
{
    let plan = job.plan()?;
    let (client, looking) = (job.handle.client(), next(&job, &plan, 0));
    let looking = client.within_patience(true, looking);
    let (next, view) = job.handle.about(looking.await)?;
    Ok(match next {
        Ok(run) => return run.execute(plan.max_run, work).await,
        Err(Standing::Done(record, _)) => Once::Done(record),
        Err(Standing::Exhausted(record, _)) => Once::Exhausted(record),
        Err(Standing::UnderWay(holder)) => Once::UnderWay(holder),
        Err(Standing::Ahead(now)) => return Err(ahead(&job, &plan, now)),
        Err(Standing::Pause(_) | Standing::NotYet(_)) => {
            let (name, now) = (job.name().unwrap_or_default(), Slot::at(view.now));
            let message = format!("no slot of the job {name:?} has begun at {now}");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
    })
}

/// Looks at the job, and claims a slot if one is to run. Returns what the last look saw as well.
async fn next(
    job: &Job,
    plan: &Plan,
    pause: u64,
) -> Result<(Result<JobRun, Standing>, View), Error> {
    let rules = Rules {
        pause,
        ..plan.rules
    };
    let keyed = match &plan.schedule {
        Schedule::Key(key) => Some(Slot::Key(key.clone())),
        _ => None,
    };
    for _ in 0..LOOKS {
        let view = job.look(keyed.as_ref()).await?;
        let next = match decide(&plan.schedule, &rules, &view) {
            ControlFlow::Continue(intent) => match claim(job, plan, intent, view.now).await? {
                Some(run) => Ok(run),
                None => continue,
            },
            ControlFlow::Break(standing) => Err(standing),
        };
        return Ok((next, view));
    }
    Err(job.changing())
}

/// Claims a slot. Returns `None` if the job is not what it was when that was decided.
///
/// A dropped future leaves a claim to the background, which undoes it. The attempt does not count.
async fn claim(job: &Job, plan: &Plan, intent: Intent, now: u64) -> Result<Option<JobRun>, Error> {
    let process = job.handle.client().description();
    let claim = Arc::new(SlotClaim {
        identity: job.handle.identity()?,
        intent,
        limit: plan.rules.limit,
        ttl: plan.ttl(now),
        keep: plan.keep,
        process: self::process(&process.host, process.pid),
        state: Default::default(),
    });
    let options = AcquireOptions {
        owner: OwnerChoice::Fresh,
        lease: plan.lease,
        wait: Wait::Never,
        ..AcquireOptions::default()
    };
    let primitive: Arc<dyn Primitive> = claim.clone();
    let Some(held) = job.handle.client().acquire(&primitive, &options).await? else {
        return Ok(None);
    };
    Ok(claim.attempt().map(|attempt| JobRun {
        held,
        claim,
        attempt,
    }))
}

fn ahead(job: &Job, plan: &Plan, now: u64) -> Error {
    let (name, now) = (job.name().unwrap_or_default(), Slot::at(now));
    let at = plan.rules.at.map(|at| Slot::at(at).to_string());
    let at = at.unwrap_or_default();
    let message = format!(
        "the job {name:?} is asked for the slot of {at}, which is over an hour after the server's \
         time, {now}: check the clock of this process"
    );
    Error::new(ErrorKind::OutOfRange, message)
}

fn lost(cause: LossCause) -> String {
    format!("the claim was lost: {cause}")
}

/// The pause after the first failure to reach the server. It doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Time that is left below which the clocks of server and process do not differ any more, in ms.
const CLOSE: u64 = 200;

pub(crate) async fn serve<E, F>(job: Job, mut work: F) -> Result<Infallible, Error>
where
    F: AsyncFnMut(&JobRun) -> Result<(), E>,
    E: fmt::Display,
{
    let plan = job.plan()?;
    let name = job.name().unwrap_or_default();
    let invalid = |fault| invalid(format!("the job {name:?} {fault}, so it cannot be served"));
    if matches!(plan.schedule, Schedule::Key(_)) {
        return Err(invalid("has a keyed slot, which nothing follows"));
    }
    if plan.rules.at.is_some() {
        return Err(invalid("has `at`"));
    }
    let mut failures = 0;
    loop {
        let step = async {
            let (next, view) = next(&job, &plan, plan.rules.pause).await?;
            match next {
                Ok(run) => {
                    // The record says how it ended, and the next look reads that.
                    let _ = run.execute(plan.max_run, &mut work).await?;
                    Ok(None)
                }
                Err(Standing::Pause(next)) => Ok(Some(sleep(view.now, next))),
                Err(
                    Standing::Done(_, next) | Standing::Exhausted(_, next) | Standing::NotYet(next),
                ) => {
                    let next = next.ok_or_else(|| {
                        let message =
                            format!("the schedule of the job {name:?} has no further time");
                        Error::new(ErrorKind::OutOfRange, message)
                    })?;
                    Ok(Some(sleep(view.now, next)))
                }
                Err(Standing::UnderWay(holder)) => {
                    // A claim that was renewed until then has a later end.
                    Ok(Some(holder.remaining + Duration::from_millis(2)))
                }
                Err(Standing::Ahead(now)) => Err(ahead(&job, &plan, now)),
            }
        };
        let pause = match step.await {
            Ok(pause) => {
                failures = 0;
                pause
            }
            // A job that has changed after each look will come to rest.
            Err(error) if error.is_transient() || error.kind() == ErrorKind::TooManyAttempts => {
                failures += 1;
                Some(after(failures))
            }
            Err(error) => return Err(error),
        };
        if let Some(pause) = pause {
            job.handle.client().pause(pause).await;
        }
    }
}

/// Returns the pause after so many failures in a row.
fn after(failures: u32) -> Duration {
    let doubled = SHORTEST.saturating_mul(1 << failures.min(10));
    doubled.min(LONGEST)
}

/// Returns how long to sleep at `now` for a slot that begins at `next`. The two clocks may run
/// apart, so a long sleep ends early, and the next look says how much is left.
fn sleep(now: u64, next: u64) -> Duration {
    let left = next.saturating_sub(now);
    Duration::from_millis(if left > CLOSE {
        left / 100 * 98
    } else {
        left + 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Even a clock that is one per cent fast wakes at most seven times for a day, and never early.
    #[test]
    fn few_sleeps_lead_to_the_next_slot() {
        for rate in [0.99, 1.0, 1.01] {
            let (mut now, next, mut sleeps) = (0_u64, 86_400_000, 0);
            while now < next {
                let slept = sleep(now, next).as_millis() as f64 * rate;
                now += slept.ceil() as u64;
                sleeps += 1;
            }
            assert!(sleeps <= 7 && now - next <= 5, "{sleeps}, {now}");
        }
    }
}
