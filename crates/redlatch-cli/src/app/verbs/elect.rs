//! `redlatch elect`: a command while this process leads.

mod http;

use std::{future::pending, pin::pin, time::Duration};

use redlatch::{Client, Election, LossCause, Term, Token};
use tokio::{
    select,
    sync::{Mutex, Notify},
    time::sleep,
};

use self::http::Leads;
use super::noted;
use crate::app::{
    args::{ElectArgs, ServerArgs},
    exit::{Failure, warn},
    job::{Cut, Job, Lease, Outcome, Patience, Program, Signals, application, supervise},
    json::Json,
    out, session,
    view::since_1970,
};

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A command that ran for this long has not failed at once.
const STEADY: Duration = Duration::from_secs(60);

/// Runs the verb.
pub(crate) async fn run(server: &ServerArgs, args: &ElectArgs) -> Result<u8, Failure> {
    if args.observe {
        return observe(server, args).await;
    }
    let application = application(&args.command);
    let builder = session::builder(server, &application)?;
    let patience = Patience::of(&args.kill, builder.chosen().1)?;
    let has_command = !args.command.is_empty();
    let program = has_command.then(|| Program::find(&args.command));
    let program = program.transpose()?;
    let listener = match &args.http {
        Some(address) => Some(http::listen(address).await?),
        None => None,
    };
    let mut signals = Signals::listen()?;
    let client = signals.during(session::connect(builder)).await??;
    let leads = Leads::default();
    let candidate = Candidate {
        client: &client,
        server,
        args,
        program: program.as_ref(),
        patience,
        leads: &leads,
    };
    let serving = async {
        match listener {
            Some(listener) => http::serve(listener, &args.name, &leads).await,
            None => pending().await,
        }
    };
    let led = select! {
        led = candidate.campaign(&mut signals) => led,
        () = serving => Err(Failure::own("nothing answers over HTTP any more")),
    };
    session::close(&client).await;
    led
}

/// A candidate for the leadership, with everything that it needs.
struct Candidate<'a> {
    client: &'a Client,
    server: &'a ServerArgs,
    args: &'a ElectArgs,
    /// `None`: it only says that it leads.
    program: Option<&'a Program>,
    patience: Patience,
    leads: &'a Leads,
}

/// The step after the end of a command.
enum End {
    /// The program ends.
    Over(u8),
    /// The name is given back, and the command runs again when this process leads again.
    Again(Duration),
}

impl Candidate<'_> {
    async fn campaign(&self, signals: &mut Signals) -> Result<u8, Failure> {
        let mut pause = self.args.pause;
        let signals = Mutex::new(signals);
        loop {
            let ran = match self.lead(&signals).await? {
                End::Over(code) => return Ok(code),
                End::Again(ran) => ran,
            };
            if ran >= STEADY {
                pause = self.args.pause;
            }
            let mut signals = signals.lock().await;
            signals.check()?;
            signals.during(sleep(pause)).await?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Campaigns, and works until the work ends. After a lost term it campaigns again.
    async fn lead(&self, signals: &Mutex<&mut Signals>) -> Result<End, Failure> {
        let started = Notify::new();
        let mut end = None;
        let election = election(self.client, self.args, self.patience);
        let led = election.lead(async |term| {
            started.notify_one();
            // What follows the end of a command is decided here, not by the time of its end.
            term.resign();
            let mut signals = signals.lock().await;
            // If the term is lost, this future is dropped, and the command is killed with it.
            end = Some(select! {
                end = self.work(term, &mut signals) => end,
                () = self.leads.during(term.token().as_u64(), term) => return,
            });
        });
        // Signals end a wait; while the work runs, they are for the work.
        let waiting = async {
            loop {
                let mut signals = signals.lock().await;
                signals.check()?;
                signals.during(started.notified()).await?;
            }
        };
        select! {
            led = led => led?,
            // The end of the command counts, unless another campaign would follow it.
            ended = waiting => return match end {
                Some(end @ (Ok(End::Over(_)) | Err(_))) => end,
                _ => ended,
            },
        }
        // `lead` returns after the work only.
        end.unwrap_or(Ok(End::Again(Duration::ZERO)))
    }

    /// Runs the command under the term, or waits for a signal if there is none.
    async fn work(&self, term: &Term, signals: &mut Signals) -> Result<End, Failure> {
        // An earlier term may have been lost while its command was ending.
        signals.check()?;
        let Some(program) = self.program else {
            return signals.during(pending()).await;
        };
        let environment = [
            ("REDLATCH_NAME", term.name().to_owned()),
            ("REDLATCH_TOKEN", term.token().to_string()),
        ];
        let job = Job {
            program,
            environment: &environment,
            patience: self.patience,
            client: self.client,
            server: self.server,
            holds: &[(term.name().to_owned(), Some(term.token()))],
        };
        let outcome = supervise(&job, term, term.ending(), signals).await?;
        Ok(after(&outcome, term.cause()))
    }
}

fn election(client: &Client, args: &ElectArgs, patience: Patience) -> Election {
    let election = client
        .election(&args.name)
        .lease(patience.lease)
        .grace(patience.kill_after)
        .value(args.value.as_deref().unwrap_or_default());
    let election = noted!(election, args.note);
    if args.fair { election.fair() } else { election }
}

/// Decides what follows the end of a command.
fn after(outcome: &Outcome, cause: Option<LossCause>) -> End {
    let is_over = outcome.told_to_end || outcome.code() == 0;
    match outcome.cut {
        Some(Cut::Lost) => {
            let why = outcome.why(cause);
            warn(&format!("the term was lost: {why}; {}", outcome.ended));
        }
        _ if is_over => {}
        _ => warn(&format!("{}; the name is given back", outcome.ended)),
    }
    match is_over {
        true => End::Over(outcome.code()),
        false => End::Again(outcome.ran),
    }
}

impl Lease for Term {}

/// Prints the leader at each change, until a signal ends it.
async fn observe(server: &ServerArgs, args: &ElectArgs) -> Result<u8, Failure> {
    let client = session::look(server, "redlatch elect").await?;
    let mut changes = client.election(&args.name).observe();
    let mut closed = pin!(out::closed());
    loop {
        let change = select! {
            change = changes.next() => change,
            () = &mut closed => None,
        };
        let leader = match change {
            None => return Ok(0),
            Some(Ok(leader)) => leader,
            Some(Err(error)) if error.is_transient() => {
                warn(&error.to_string());
                continue;
            }
            Some(Err(error)) => return Err(error.into()),
        };
        let json = Json::new().with("name", &args.name);
        let json = json.with("leads", leader.is_some());
        let json = match leader {
            None => json,
            Some(leader) => json
                .with_some("value", leader.value)
                .with("token", leader.token.as_u64())
                .with("since_ms", since_1970(leader.since))
                .with_some("note", note(&client, args, leader.token).await),
        };
        out::print(&json.line())?;
    }
}

/// Returns the note of a term. It is written before the value of the leader, so it is there when
/// the value is. Without an answer the change is shown without it.
async fn note(client: &Client, args: &ElectArgs, token: Token) -> Option<String> {
    let object = client.object(&args.name).await.ok().flatten()?;
    let mut holders = object.holders.into_iter();
    let of_term = holders.find(|holder| holder.token == Some(token))?;
    of_term.note
}
