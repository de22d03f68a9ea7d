//! `redlatch man` and `redlatch completions`, made from the options themselves.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::app::{args::Args, exit::Failure, out};

/// Prints the manual page of the program, or of one verb.
pub(crate) fn man(verb: Option<&str>) -> Result<u8, Failure> {
    let mut command = Args::command();
    command.build();
    let command = match verb {
        None => command,
        Some(verb) => verb_of(&command, verb)?,
    };
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::own(format!("no manual page: {error}")))?;
    out::print(&String::from_utf8_lossy(&page))?;
    Ok(0)
}

fn verb_of(command: &Command, verb: &str) -> Result<Command, Failure> {
    let found = command
        .get_subcommands()
        .find(|found| found.get_name() == verb && !found.is_hide_set());
    // `build` has made the display name `redlatch-run` of `run`.
    found.cloned().ok_or_else(|| {
        let verb = out::clean(verb);
        Failure::usage(format!("there is no verb {verb}; redlatch help lists them"))
    })
}

/// Prints the script of a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    // The scripts would offer the hidden verbs as well.
    let all = Args::command();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set());
    let mut shown = Command::new("redlatch")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(verbs.cloned());
    clap_complete::generate(shell, &mut shown, "redlatch", &mut script);
    out::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
