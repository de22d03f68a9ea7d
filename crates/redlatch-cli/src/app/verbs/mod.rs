//! The verbs, one file each.

mod break_hold;
mod changes;
mod doctor;
mod elect;
mod forget;
mod hold;
mod ls;
mod manual;
mod once;
mod run;
mod show;
mod timeline;
mod top;
mod wait;

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

use super::{
    args::{Args, Verb},
    exit::Failure,
};

/// Runs a verb that talks to the server.
pub(crate) async fn run(args: Args) -> Result<u8, Failure> {
    let Args { server, verb } = args;
    match verb {
        Verb::Run(args) => run::run(&server, &args).await,
        Verb::Once(args) => once::run(&server, &args).await,
        Verb::Elect(args) => elect::run(&server, &args).await,
        Verb::Ls(args) => ls::run(&server, &args).await,
        Verb::Show(args) => show::run(&server, &args).await,
        Verb::Top(args) => top::run(&server, &args).await,
        Verb::Wait(args) => wait::run(&server, &args).await,
        Verb::Hold(args) => hold::hold(&server, &args).await,
        Verb::Release(args) => hold::release(&server, &args).await,
        Verb::Break(args) => break_hold::run(&server, &args).await,
        Verb::Forget(args) => forget::run(&server, &args).await,
        Verb::Doctor(args) => doctor::run(&server, &args).await,
        Verb::Timeline(args) => timeline::run(&args),
        Verb::Man { verb } => manual::man(verb.as_deref()),
        Verb::Completions { shell } => manual::completions(shell),
        Verb::Guardian | Verb::Launch(_) => Err(Failure::own("this verb is internal")),
    }
}
