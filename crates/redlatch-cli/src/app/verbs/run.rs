//! `redlatch run`: a command under a lock.

use std::time::Duration;

use redlatch::{
    Client, Held, HoldState, Lockable, LossCause, MultiGuard, Owner, Semaphore, SemaphorePermit,
    Token,
};
use tokio::time::Instant;

use super::{held, noted, telling};
use crate::app::{
    args::{RunArgs, ServerArgs},
    clock,
    exit::{BUSY, Failure, warn},
    job::{Cut, Job, Lease, Outcome, Patience, Program, Signals, application, supervise},
    out::clean,
    report::{Report, millis, reported},
    session,
};

/// Runs the verb, and writes the report of it.
pub(crate) async fn run(server: &ServerArgs, args: &RunArgs) -> Result<u8, Failure> {
    let attempt = async |report: &mut Report| attempt(server, args, report).await;
    reported(args.report.as_deref(), args.names.clone(), attempt).await
}

async fn attempt(server: &ServerArgs, args: &RunArgs, report: &mut Report) -> Result<u8, Failure> {
    let end = args.wait.map(|wait| Instant::now() + wait);
    let builder = session::builder(server, &application(&args.command))?;
    let patience = Patience::of(&args.kill, builder.chosen().1)?;
    if args.permits.is_some() && args.names.len() > 1 {
        return Err(Failure::usage("--permits takes one name"));
    }
    let program = Program::find(&args.command)?;
    let mut signals = Signals::listen()?;
    let connected = session::connect_within(builder, args.wait);
    let client = signals.during(connected).await??;
    let began = clock::now();
    let now = args.now.then_some(Duration::ZERO);
    let wait = now.or_else(|| end.map(session::left));
    let acquired = acquire(&client, args, (wait, patience.lease));
    let acquired = telling((server, &client), &args.names, args.long_wait, acquired);
    let acquired = signals.during(acquired).await;
    report.waited_ms = millis(clock::now() - began);
    let ended = match acquired.and_then(|acquired| Ok(acquired?)) {
        Ok(Some(hold)) => {
            let job = Job {
                program: &program,
                environment: &[],
                patience,
                client: &client,
                server,
                holds: &[],
            };
            work(hold, job, args.of, &mut signals, report).await
        }
        Ok(None) => {
            report.outcome = "busy";
            Err(busy(&client, args).await)
        }
        Err(failure) => Err(failure),
    };
    // This also gives back a name without a command, and what is left of a lost hold.
    session::close(&client).await;
    ended
}

/// Runs the command of `job` under `hold`, and gives the names back.
async fn work(
    hold: Hold,
    job: Job<'_>,
    of: Option<u32>,
    signals: &mut Signals,
    report: &mut Report,
) -> Result<u8, Failure> {
    if let (Hold::Permits(_, name), Some(of)) = (&hold, of) {
        let warned = warn_of_another_number(job.client, name, of);
        signals.during(warned).await?;
    }
    let (environment, names) = (hold.environment(report), hold.names());
    let job = Job {
        environment: &environment,
        holds: &names,
        ..job
    };
    let outcome = match &hold {
        Hold::Locks(guard) => supervise(&job, guard, guard.lost(), signals).await?,
        Hold::Permits(permit, _) => supervise(&job, permit, permit.lost(), signals).await?,
    };
    finish(hold, outcome, report).await
}

/// Returns the end of a run whose names other owners hold.
async fn busy(client: &Client, args: &RunArgs) -> Failure {
    let held = held(client, &args.names).await;
    let message = held.map_or_else(|| "busy".to_owned(), |held| format!("busy: {held}"));
    Failure::busy(args.busy_code.unwrap_or(BUSY), message)
}

/// The locks or permits that a run holds.
enum Hold {
    Locks(MultiGuard),
    Permits(SemaphorePermit, String),
}

impl Hold {
    /// Returns the names, each with its token.
    fn names(&self) -> Vec<(String, Option<Token>)> {
        match self {
            Self::Locks(guard) => {
                let named = |member: &Held| (member.name().to_owned(), Some(member.token()));
                guard.members().iter().map(named).collect()
            }
            Self::Permits(_, name) => vec![(name.clone(), None)],
        }
    }

    /// Returns what the command is told about its hold.
    fn environment(&self, report: &mut Report) -> Vec<(&'static str, String)> {
        let guard = match self {
            Self::Locks(guard) => guard,
            Self::Permits(_, name) => return vec![("REDLATCH_NAME", name.clone())],
        };
        // In the order of the command line. A name that was given twice has one member.
        let token = |name: &String| guard.token(name).map(|token| token.as_u64());
        report.tokens = report.names.iter().filter_map(token).collect();
        let first = guard.members().first();
        report.owner = first.map(|member| member.owner().to_string());
        let tokens: Vec<_> = report.tokens.iter().map(ToString::to_string).collect();
        vec![
            ("REDLATCH_NAME", report.names.join("\n")),
            ("REDLATCH_TOKEN", tokens.join("\n")),
            ("REDLATCH_OWNER", report.owner.clone().unwrap_or_default()),
        ]
    }
}

/// The kill rule counts from the first deadline, so permits begin with their whole lease. A
/// multi-lock always does.
async fn acquire(
    client: &Client,
    args: &RunArgs,
    (wait, lease): (Option<Duration>, Duration),
) -> Result<Option<Hold>, redlatch::Error> {
    if let Some(permits) = args.permits {
        let name = args.names.first().cloned().unwrap_or_default();
        let (semaphore, of) = (client.semaphore(&name), args.of.into_iter());
        let semaphore = of.fold(semaphore, Semaphore::permits_if_unset);
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
    let members = args.names.iter().map(|name| member(client, args, name));
    let members: Vec<Box<dyn Lockable>> = members.collect();
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

/// Says that `--of` does not change a semaphore that is there.
async fn warn_of_another_number(client: &Client, name: &str, of: u32) {
    // Without an answer the command runs all the same.
    let number = client.semaphore(name).permits().await;
    if let Some(number) = number.ok().filter(|number| *number != of) {
        let name = clean(name);
        warn(&format!(
            "{name} has {number} permits, and --of {of} does not change that; use redlatch resize"
        ));
    }
}

impl Lease for MultiGuard {
    async fn is_kept(&self) -> bool {
        for member in self.members() {
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

/// Gives the names back, unless the hold is lost. The command is dead.
async fn finish(hold: Hold, outcome: Outcome, report: &mut Report) -> Result<u8, Failure> {
    report.ended(&outcome);
    if outcome.cut == Some(Cut::Lost) {
        let cause = match &hold {
            Hold::Locks(guard) => guard.cause(),
            Hold::Permits(permit, _) => permit.cause(),
        };
        report.lost = Some(cause.map_or("not_renewed", LossCause::as_str).to_owned());
        report.by.clone_from(&outcome.by);
        let why = outcome.why(cause);
        let message = format!("lost: {why}; {}", outcome.ended);
        return Err(Failure::new(outcome.code(), message));
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
