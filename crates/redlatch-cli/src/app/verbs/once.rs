//! `redlatch once`: a command unless its slot is done.

use std::{future::pending, time::Duration};

use redlatch::{
    Client, LossCause,
    once::{Job, JobError, JobRun, Once},
};
use tokio::{
    select,
    sync::{Mutex, Notify},
};

use crate::app::{
    args::{OnceArgs, ServerArgs},
    exit::{EXHAUSTED, Failure, LOST, OVERRAN},
    job::{self, Cut, Ended, Outcome, Patience, Program, Signals, application, supervise},
    out::clean,
    report::{Report, reported},
    session,
};

/// Runs the verb, and writes the report of it.
pub(crate) async fn run(server: &ServerArgs, args: &OnceArgs) -> Result<u8, Failure> {
    let names = vec![args.name.clone()];
    let attempt = async |report: &mut Report| attempt(server, args, report).await;
    reported(args.report.as_deref(), names, attempt).await
}

async fn attempt(server: &ServerArgs, args: &OnceArgs, report: &mut Report) -> Result<u8, Failure> {
    let builder = session::builder(server, &application(&args.command))?;
    let patience = Patience {
        limit: args.max_run,
        ..Patience::of(&args.kill, builder.chosen().1)?
    };
    let program = Program::find(&args.command)?;
    let mut signals = Signals::listen()?;
    let client = signals.during(session::connect(builder)).await??;
    let job = job(&client, args, patience.lease);
    let (signals, claimed) = (Mutex::new(signals), Notify::new());
    let mut failure = None;
    let once = job.run(async |run| {
        claimed.notify_one();
        let mut signals = signals.lock().await;
        let environment = environment(run, report);
        let job = job::Job {
            program: &program,
            environment: &environment,
            patience,
            client: &client,
            server,
            // A claim ends with its lease only.
            holds: &[],
        };
        let supervised = supervise(&job, &**run, run.lost(), &mut signals).await;
        let outcome = supervised.map_err(|error| failure.insert(error).message.clone())?;
        report.ended(&outcome);
        if outcome.cut == Some(Cut::Lost) {
            // The claim may be all right again, but the command was told to end.
            let why = "the hold could not be renewed in time, and the command was ended";
            return Err(why.to_owned());
        }
        why(&outcome).map_or(Ok(outcome), Err)
    });
    // A signal ends the wait for the claim. Later ones are for the command.
    let waiting = async {
        let waited = signals.lock().await.during(claimed.notified()).await;
        match waited {
            Ok(()) => pending().await,
            Err(ended) => ended,
        }
    };
    let once = select! {
        once = once => Ok(once),
        ended = waiting => Err(ended),
    };
    session::close(&client).await;
    let once = once?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    if report.outcome == "lost" {
        // Whether the server has recorded that or could not be told, the command was ended.
        let why = "it could not be renewed in time, and the command was ended";
        return Err(Failure::new(LOST, format!("lost: {why}")));
    }
    conclude(args, once?, report)
}

/// Builds the job. `max_run` is kept by the kill rule, which sends TERM first.
fn job(client: &Client, args: &OnceArgs, lease: Duration) -> Job {
    let job = client.once(&args.name).lease(lease);
    let job = args.retries.into_iter().fold(job, Job::retries);
    if let Some(period) = args.every {
        job.every(period.span).offset(period.offset)
    } else if let (Some(expression), Some(zone)) = (&args.cron, &args.tz) {
        job.cron(expression, zone)
    } else if let Some(gap) = args.gap {
        job.gap(gap)
    } else {
        // One of the options is required.
        job.slot(args.slot.as_deref().unwrap_or_default())
    }
}

fn environment(run: &JobRun, report: &mut Report) -> Vec<(&'static str, String)> {
    report.tokens = vec![run.token().as_u64()];
    report.owner = Some(run.owner().to_string());
    report.slot = Some(run.slot().to_string());
    vec![
        ("REDLATCH_NAME", run.name().to_owned()),
        ("REDLATCH_TOKEN", run.token().to_string()),
        ("REDLATCH_OWNER", run.owner().to_string()),
        ("REDLATCH_SLOT", run.slot().to_string()),
        ("REDLATCH_ATTEMPT", run.attempt().to_string()),
    ]
}

/// Says why a run has failed; `None` if it has not.
fn why(outcome: &Outcome) -> Option<String> {
    match outcome.cut {
        Some(Cut::Overran) => Some(format!("it took longer than --max-run; {}", outcome.ended)),
        _ if outcome.ended.code() == 0 => None,
        _ => Some(outcome.ended.to_string()),
    }
}

fn conclude(
    args: &OnceArgs,
    once: Once<Outcome, String>,
    report: &mut Report,
) -> Result<u8, Failure> {
    match once {
        Once::Ran(outcome) => Ok(outcome.code()),
        Once::Done(_) => {
            report.outcome = "done_before";
            Ok(args.skipped)
        }
        Once::UnderWay(_) => {
            report.outcome = "under_way";
            Ok(args.skipped)
        }
        Once::Failed(error) => failed(&error, report),
        Once::Lost(cause) => Err(lost(cause, report)),
        Once::Exhausted(record) => {
            report.outcome = "exhausted";
            let (name, record) = (clean(&args.name), clean(&record.to_string()));
            let message = format!("{name} has used up its attempts; the last run: {record}");
            Err(Failure::new(EXHAUSTED, message))
        }
        _ => Err(Failure::own(
            "the job has ended in a way that is unknown here",
        )),
    }
}

/// The command itself has said why it failed, so an exit code is enough.
fn failed(error: &JobError<String>, report: &Report) -> Result<u8, Failure> {
    if report.outcome == "overran" {
        return Err(Failure::new(OVERRAN, error.to_string()));
    }
    match (report.exit, report.signal) {
        (Some(code), _) => Ok(Ended::Exited(code).code()),
        (None, Some(signal)) => Ok(Ended::Signaled(signal).code()),
        (None, None) => Err(Failure::own(error.to_string())),
    }
}

fn lost(cause: LossCause, report: &mut Report) -> Failure {
    report.outcome = "lost";
    report.lost = Some(cause.as_str().to_owned());
    let message = format!("lost: {cause}; the command was killed if it was not over");
    Failure::new(LOST, message)
}
