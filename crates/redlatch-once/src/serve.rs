//! Running each slot when it begins.

use std::{convert::Infallible, fmt, time::Duration};

use redlatch_core::{
    Error, ErrorKind,
    family::{Internals, invalid},
};

use crate::{Job, JobRun, decide::Standing, run, schedule::Schedule};

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
            let (next, view) = run::next(&job, &plan, plan.rules.pause).await?;
            match next {
                Ok(run) => {
                    // The record says how it ended, and the next look reads that.
                    let _ = run.execute(plan.max_run, &mut work).await?;
                    Ok(None)
                }
                Err(
                    Standing::Done(_, Some(next))
                    | Standing::Exhausted(_, Some(next))
                    | Standing::NotYet(Some(next))
                    | Standing::Pause(next),
                ) => Ok(Some(sleep(view.now, next))),
                Err(Standing::UnderWay(holder)) => {
                    // A claim that was renewed until then has a later end.
                    Ok(Some(holder.remaining + Duration::from_millis(2)))
                }
                Err(Standing::Ahead(now)) => Err(run::ahead(&job, &plan, now)),
                Err(
                    Standing::Done(_, None) | Standing::Exhausted(_, None) | Standing::NotYet(None),
                ) => {
                    let message = format!("the schedule of the job {name:?} has no further time");
                    Err(Error::new(ErrorKind::OutOfRange, message))
                }
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
