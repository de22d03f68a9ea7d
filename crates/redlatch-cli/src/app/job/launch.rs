//! The start of a command: this program in a group of its own, which waits until the guardian knows
//! the group, takes the terminal, and becomes the command.

use std::{fs::File, io::Read};

use super::{Program, terminal::Terminal};
use crate::app::{
    args::LaunchArgs,
    exit::{Failure, OWN},
};

/// Becomes the command. Returns only if it cannot.
pub(crate) fn main(args: &LaunchArgs) -> Failure {
    // The command dies with its wrapper even if the guardian is killed at the same time. The
    // wrapper that is gone by now closes the pipe, so that is no race.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match wait(args.go) {
        Ok(true) => {}
        // The process that starts the command is dead, and nobody would guard the command.
        Ok(false) => return Failure::new(OWN, ""),
        Err(error) => return Failure::own(format!("the command cannot be started: {error}")),
    }
    if args.foreground
        && let Some(terminal) = Terminal::open()
    {
        terminal.give(rustix::process::getpid());
    }
    let program = Program {
        path: args.program.clone(),
        words: args.command.clone(),
    };
    program.exec(&[])
}

/// Waits for a byte. Returns `false` if the other end is closed.
fn wait(descriptor: i32) -> std::io::Result<bool> {
    // The descriptor has no owner in this process, so it is opened by its path.
    let mut pipe = ["/proc/self/fd", "/dev/fd"]
        .iter()
        .map(|folder| File::open(format!("{folder}/{descriptor}")))
        .find(Result::is_ok)
        .unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()))?;
    // The command does not inherit it.
    nix::unistd::close(descriptor)?;
    let mut byte = [0];
    Ok(pipe.read(&mut byte)? == 1)
}
