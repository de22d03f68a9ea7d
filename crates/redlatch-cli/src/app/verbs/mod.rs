//! The verbs, one file each.

mod run;

use super::{
    args::{Args, Verb},
    exit::Failure,
};

/// Runs a verb that talks to the server.
pub(crate) async fn run(args: Args) -> Result<u8, Failure> {
    let Args { server, verb } = args;
    match verb {
        Verb::Run(args) => run::run(&server, &args).await,
        Verb::Guardian | Verb::Launch(_) => Err(Failure::own("this verb is internal")),
    }
}
