//! `redlatch limit`: a command at a rate.

use std::{future::ready, pin::pin, time::Duration};

use redlatch::{
    Client,
    limit::{Admission, Pass, RateLimiter},
};
use tokio::time::{Instant, sleep, timeout};

use super::telling;
use crate::app::{
    args::{LimitArgs, ServerArgs},
    exit::{BUSY, Failure},
    job::{Program, Signals, application},
    out::clean,
    session,
    span::short,
};

/// Runs the verb. Returns only if the command cannot be started.
pub(crate) async fn run(server: &ServerArgs, args: &LimitArgs) -> Result<u8, Failure> {
    check(args)?;
    let wait = args.now.then_some(Duration::ZERO).or(args.wait);
    let end = wait.map(|wait| Instant::now() + wait);
    let builder = session::builder(server, &application(&args.command))?;
    let program = Program::find(&args.command)?;
    let mut signals = Signals::listen()?;
    let connected = session::connect_within(builder, wait);
    let client = signals.during(connected).await??;
    let passed = pass((server, &client), args, end, &mut signals).await;
    session::close(&client).await;
    passed?;
    // The command must not run after a signal that came in the meantime.
    signals.during(ready(())).await?;
    Err(program.exec(&[("REDLATCH_NAME", args.name.as_str())]))
}

/// Takes tokens and waits until they count. If a signal ends the wait, the tokens are given back.
async fn pass(
    (server, client): (&ServerArgs, &Client),
    args: &LimitArgs,
    end: Option<Instant>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let (count, per) = args.rate;
    let limiter = client.rate_limiter(&args.name).rate(count, per);
    let limiter = args.burst.into_iter().fold(limiter, RateLimiter::burst);
    let mut taking = pin!(take(&limiter, args.cost, end));
    let taken = match signals.during(&mut taking).await {
        Ok(taken) => taken?,
        Err(ended) => {
            if let Ok(Ok(Ok((pass, _)))) = timeout(LAST_WORD, taking).await {
                let _ = timeout(LAST_WORD, pass.settle(0)).await;
            }
            return Err(ended);
        }
    };
    let (pass, due) = taken.map_err(|due| busy(&args.name, due))?;
    let waited = signals.during(telling((server, client), &[], None, sleep(due)));
    let waited = waited.await;
    if waited.is_err() {
        // Without an answer, the rate pays them.
        let _ = timeout(LAST_WORD, pass.settle(0)).await;
    }
    waited
}

/// Takes tokens that count by `end`. Returns the pass and the time until it counts, or the time
/// after which another try may pass.
async fn take(
    limiter: &RateLimiter,
    cost: u64,
    end: Option<Instant>,
) -> Result<Result<(Pass, Duration), Duration>, redlatch::Error> {
    let Some(end) = end else {
        return limiter.reserve(cost).await.map(Ok);
    };
    if session::left(end).is_zero() {
        return Ok(match limiter.try_acquire(cost).await? {
            Admission::Pass(pass) => Ok((pass, Duration::ZERO)),
            Admission::Refused(refused) => Err(refused.retry_after),
        });
    }
    // An answer may take a part of the time.
    let is_late = |due: Duration| Instant::now() + due > end;
    // A look takes nothing from others if the time is too short.
    let due = limiter.peek().await?.retry_after(cost).unwrap_or_default();
    if is_late(due) {
        return Ok(Err(due));
    }
    let (pass, due) = limiter.reserve(cost).await?;
    if is_late(due) {
        pass.settle(0).await?;
        return Ok(Err(due));
    }
    Ok(Ok((pass, due)))
}

/// Refuses a cost that never passes.
fn check(args: &LimitArgs) -> Result<(), Failure> {
    let (cost, burst) = (args.cost, args.burst.unwrap_or(args.rate.0));
    if cost <= burst {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--cost {cost} never passes, since the burst is {burst}; say --burst {cost} or more"
    )))
}

fn busy(name: &str, due: Duration) -> Failure {
    let (name, rest) = (clean(name), short(due));
    let message = format!("busy: the rate of {name} is used up; the command may pass in {rest}");
    Failure::busy(BUSY, message)
}

/// How long the end of a wait tries to give the tokens back.
const LAST_WORD: Duration = Duration::from_secs(1);
