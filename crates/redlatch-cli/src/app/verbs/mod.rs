//! The verbs.

mod break_hold;
mod changes;
mod doctor;
mod elect;
mod hold;
mod limit;
mod ls;
mod manual;
mod once;
mod run;
mod show;
mod timeline;
mod top;
mod upkeep;
mod wait;

use std::time::Duration;

use redlatch::Client;
use tokio::{select, time::sleep};

use super::{
    address,
    args::{Args, ServerArgs, Verb},
    exit::{Failure, warn},
    job::application,
    out::{self, clean},
    record,
    span::short,
};

/// Adds the note of the command line to an acquisition.
macro_rules! noted {
    ($acquire:expr, $note:expr) => {
        match &$note {
            Some(note) => $acquire.note(note),
            None => $acquire,
        }
    };
}

use noted;

pub(super) use self::break_hold::{How, end};

/// Runs a verb.
pub(crate) async fn run(args: Args) -> Result<u8, Failure> {
    let Args { mut server, verb } = args;
    let verb = verb.with_names()?;
    let (file, command) = match &verb {
        Verb::Run(args) => (args.record.as_deref(), &args.command[..]),
        Verb::Once(args) => (args.record.as_deref(), &args.command[..]),
        Verb::Elect(args) => (args.record.as_deref(), &args.command[..]),
        Verb::Limit(args) => (None, &args.command[..]),
        Verb::Timeline(args) => return timeline::run(args),
        Verb::Man { verb } => return manual::man(verb.as_deref()),
        Verb::Completions { shell } => return manual::completions(*shell),
        Verb::Doctor(args) => return doctor::run(server, args).await,
        _ => (None, &[][..]),
    };
    record::begin(server.verbose, file, &application(command))?;
    server.found = Some(address::find(&server)?);
    let server = &server;
    match verb {
        Verb::Run(args) => run::run(server, &args).await,
        Verb::Once(args) => once::run(server, &args).await,
        Verb::Elect(args) => elect::run(server, &args).await,
        Verb::Limit(args) => limit::run(server, &args).await,
        Verb::Ls(args) => ls::run(server, &args).await,
        Verb::Show(args) => show::run(server, &args).await,
        Verb::Top(args) => top::run(server, &args).await,
        Verb::Wait(args) => wait::run(server, &args).await,
        Verb::Hold(args) => hold::hold(server, &args).await,
        Verb::Release(args) => hold::release(server, &args).await,
        Verb::Break(args) => break_hold::run(server, &args).await,
        Verb::Forget(args) => upkeep::forget(server, &args).await,
        Verb::Resize(args) => upkeep::resize(server, &args).await,
        _ => Err(Failure::own("this verb is internal")),
    }
}

/// Waits for `done`, and says after a while who has the names: after `span`, or a short time on a
/// terminal, or never. With `--quiet` it says nothing.
async fn telling<T>(
    (server, client): (&ServerArgs, &Client),
    names: &[String],
    span: Option<Duration>,
    done: impl Future<Output = T>,
) -> T {
    let tell = async {
        let span = span.or_else(|| out::can_tell().then_some(SILENT));
        let Some(span) = span.filter(|_| !server.quiet) else {
            return;
        };
        sleep(span).await;
        let who = held(client, names).await;
        let who = who.map_or_else(String::new, |who| format!("; {who}"));
        warn(&format!("waiting for {} already{who}", short(span)));
    };
    let mut done = std::pin::pin!(done);
    select! {
        done = &mut done => done,
        () = tell => done.await,
    }
}

/// Names the holders of the first of the names that is held.
async fn held(client: &Client, names: &[String]) -> Option<String> {
    for name in names {
        let object = client.object(name).await.ok().flatten();
        if let Some(object) = object.filter(|object| !object.holders.is_empty()) {
            let holders = show::holders(&object);
            return Some(format!("{} is held by {holders}", clean(name)));
        }
    }
    None
}

/// How long a wait on a terminal is silent.
const SILENT: Duration = Duration::from_secs(2);
