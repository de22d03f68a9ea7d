//! `redlatch run`: a command under a lock.

use std::{convert::Infallible, future::pending, time::Duration};

use redlatch::{Client, Held, HoldState, Lockable, LossCause, MultiGuard, Owner, SemaphorePermit};
use tokio::{select, time::sleep};

use super::{noted, show::holders};
use crate::app::{
    args::{RunArgs, ServerArgs},
    clock,
    exit::{BUSY, Failure, warn},
    job::{Cut, Job, Lease, Outcome, Patience, Program, Signals, code_of, supervise},
    out::clean,
    record,
    report::{Report, ReportFile, millis},
    session,
    span::short,
};

/// Runs the verb, and writes the report of it.
pub(crate) async fn run(server: &ServerArgs, args: &RunArgs) -> Result<u8, Failure> {
    let file = ReportFile::open(args.report.as_deref())?;
    let mut report = Report {
        names: args.names.clone(),
        outcome: "failed",
        ..Report::default()
    };
    let ended = attempt(server, args, &mut report).await;
    report.code = match &ended {
        Ok(code) => *code,
        Err(failure) => failure.code,
    };
    report.message = ended.as_ref().err().map(|failure| failure.message.clone());
    file.write(&report);
    ended
}

async fn attempt(server: &ServerArgs, args: &RunArgs, report: &mut Report) -> Result<u8, Failure> {
    let patience = Patience::of(&args.kill)?;
    if args.permits.is_some() && args.names.len() > 1 {
        return Err(Failure::usage("--permits takes one name"));
    }
    let program = Program::find(&args.command)?;
    let mut signals = Signals::listen()?;
    let application = program.words.first().map(|word| word.to_string_lossy());
    let application = application.unwrap_or_default();
    record::begin(args.record.as_deref(), &application)?;
    let client = select! {
        client = session::connect(server, &application) => client?,
        signal = signals.end() => return Ok(code_of(signal)),
    };
    let began = clock::now();
    let hold = select! {
        hold = acquire(&client, args) => Ok(hold),
        never = tell_long_wait(&client, args) => match never {},
        signal = signals.end() => Err(signal),
    };
    report.waited_ms = millis(clock::now() - began);
    let hold = match hold {
        Ok(Ok(Some(hold))) => hold,
        Ok(Ok(None)) => {
            report.outcome = "busy";
            let code = args.busy_code.unwrap_or(BUSY);
            return Err(Failure::new(code, busy(&client, args).await));
        }
        Ok(Err(error)) => {
            session::close(&client).await;
            return Err(error.into());
        }
        Err(signal) => {
            session::close(&client).await;
            return Ok(code_of(signal));
        }
    };
    let job = Job {
        program: &program,
        environment: &[],
        patience,
        client: &client,
    };
    match under(&hold, job, &mut signals, report).await {
        Ok(outcome) => finish(hold, outcome, report).await,
        Err(failure) => {
            // The command has not started, and the name need not stay taken for that.
            let _ = tokio::time::timeout(LAST_WORD, release(hold)).await;
            Err(failure)
        }
    }
}

/// The locks or permits that a run holds.
enum Hold {
    Locks(MultiGuard),
    Permits(SemaphorePermit, String),
}

/// The kill rule counts from the first deadline, so permits begin with their whole lease. A
/// multi-lock always does.
async fn acquire(client: &Client, args: &RunArgs) -> Result<Option<Hold>, redlatch::Error> {
    let lease = args.kill.lease;
    let wait = if args.now {
        Some(Duration::ZERO)
    } else {
        args.wait
    };
    if let Some(permits) = args.permits {
        let name = args.names.first().cloned().unwrap_or_default();
        let semaphore = client.semaphore(&name);
        let semaphore = match args.of {
            Some(of) => semaphore.permits_if_unset(of),
            None => semaphore,
        };
        let permit = match wait {
            None => {
                let permits = semaphore.acquire_many(permits).renewed_lease(lease);
                Some(noted!(permits.whole_lease(), args.note).await?)
            }
            Some(wait) => {
                let permits = semaphore.try_acquire_many_for(permits, wait);
                noted!(permits.renewed_lease(lease).whole_lease(), args.note).await?
            }
        };
        return Ok(permit.map(|permit| Hold::Permits(permit, name)));
    }
    let members: Vec<Box<dyn Lockable>> = args
        .names
        .iter()
        .map(|name| member(client, args, name))
        .collect();
    let members: Vec<&dyn Lockable> = members.iter().map(|member| &**member).collect();
    let locks = client.multi_lock(&members);
    // One owner for all names, so that the command can be told it.
    let owner: Owner = client.owner();
    let guard = match wait {
        None => {
            let lock = locks.lock().renewed_lease(lease).owner(&owner);
            Some(noted!(lock, args.note).await?)
        }
        Some(wait) => {
            let lock = locks.try_lock_for(wait).renewed_lease(lease).owner(&owner);
            noted!(lock, args.note).await?
        }
    };
    Ok(guard.map(Hold::Locks))
}

fn member(client: &Client, args: &RunArgs, name: &str) -> Box<dyn Lockable> {
    if args.fair {
        Box::new(client.fair_lock(name))
    } else if args.read {
        Box::new(client.read_write_lock(name).read_side())
    } else if args.write {
        Box::new(client.read_write_lock(name).write_side())
    } else {
        Box::new(client.lock(name))
    }
}

/// Says who has a name, as far as one look tells.
async fn busy(client: &Client, args: &RunArgs) -> String {
    match held(client, args).await {
        Some(held) => format!("busy: {held}"),
        None => "busy".to_owned(),
    }
}

/// Says who has the first of the names that somebody has.
async fn held(client: &Client, args: &RunArgs) -> Option<String> {
    for name in &args.names {
        let object = client.object(name).await.ok().flatten();
        if let Some(object) = object.filter(|object| !object.holders.is_empty()) {
            return Some(format!("{} is held by {}", clean(name), holders(&object)));
        }
    }
    None
}

/// Says after a while who has the names. Never resolves.
async fn tell_long_wait(client: &Client, args: &RunArgs) -> Infallible {
    if let Some(span) = args.long_wait {
        sleep(span).await;
        let who = held(client, args).await;
        let who = who.map_or_else(String::new, |who| format!("; {who}"));
        warn(&format!("waiting for {} already{who}", short(span)));
    }
    pending().await
}

/// Locks, as the kill rule sees them.
struct Locks<'a>(&'a MultiGuard);

impl Lease for Locks<'_> {
    fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    fn cause(&self) -> Option<LossCause> {
        self.0.cause()
    }

    async fn is_kept(&self) -> bool {
        for member in self.0.members() {
            match member.state() {
                HoldState::Held | HoldState::Unknown => {}
                HoldState::Lost(LossCause::Revoked) => {
                    let client = Client::from(member.client().clone());
                    let found = client.object(member.name()).await.ok().flatten();
                    let owner = member.owner().to_string();
                    let is_it = |holder: &redlatch::ObjectHolder| {
                        holder.owner == owner && holder.token == Some(member.token())
                    };
                    if !found.is_some_and(|object| object.holders.iter().any(is_it)) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        true
    }
}

/// Runs the command under what is held.
async fn under(
    hold: &Hold,
    job: Job<'_>,
    signals: &mut Signals,
    report: &mut Report,
) -> Result<Outcome, Failure> {
    let environment = match hold {
        Hold::Locks(guard) => of_locks(guard, report),
        Hold::Permits(_, name) => vec![("REDLATCH_NAME", name.clone())],
    };
    let job = Job {
        environment: &environment,
        ..job
    };
    let outcome = match hold {
        Hold::Locks(guard) => supervise(&job, &Locks(guard), signals).await?,
        Hold::Permits(permit, _) => supervise(&job, permit, signals).await?,
    };
    report.ended(&outcome);
    Ok(outcome)
}

/// Returns what the command is told about its locks.
fn of_locks(guard: &MultiGuard, report: &mut Report) -> Vec<(&'static str, String)> {
    // In the order of the command line. A name that was given twice has one member.
    let token = |name: &String| guard.token(name).map(|token| token.as_u64());
    report.tokens = report.names.iter().filter_map(token).collect();
    report.owner = guard
        .members()
        .first()
        .map(Held::owner)
        .map(ToString::to_string);
    let tokens: Vec<_> = report.tokens.iter().map(ToString::to_string).collect();
    vec![
        ("REDLATCH_NAME", report.names.join("\n")),
        ("REDLATCH_TOKEN", tokens.join("\n")),
        ("REDLATCH_OWNER", report.owner.clone().unwrap_or_default()),
    ]
}

/// Gives the names back. The command is dead.
async fn finish(hold: Hold, outcome: Outcome, report: &mut Report) -> Result<u8, Failure> {
    if outcome.cut == Some(Cut::Lost) {
        let cause = match &hold {
            Hold::Locks(guard) => guard.cause(),
            Hold::Permits(permit, _) => permit.cause(),
        };
        report.lost = Some(cause.map_or("not_renewed", LossCause::as_str).to_owned());
        let why = cause.map_or_else(
            || "it could not be renewed".to_owned(),
            |cause| cause.to_string(),
        );
        // What is left of the hold is given back, if the server still answers.
        let _ = tokio::time::timeout(LAST_WORD, release(hold)).await;
        return Err(Failure::new(
            outcome.code(),
            format!("lost: {why}; {}", outcome.ended),
        ));
    }
    for problem in release(hold).await {
        warn(&problem);
    }
    Ok(outcome.code())
}

/// Releases, and returns what went wrong with it. The work is done, so that is no failure of it.
async fn release(hold: Hold) -> Vec<String> {
    let released = match hold {
        Hold::Locks(guard) => guard.release().await,
        Hold::Permits(permit, name) => permit.release().await.map(|it| vec![(name, it)]),
    };
    match released {
        Ok(released) => {
            let lost = released.into_iter().filter(|(_, it)| !it.is_clean());
            lost.map(|(name, _)| format!("{name} had been lost when the command ended"))
                .collect()
        }
        Err(error) => vec![format!(
            "the release was not confirmed, and a lease may have to end: {error}"
        )],
    }
}

/// How long the release after a loss may take.
const LAST_WORD: Duration = Duration::from_secs(1);
