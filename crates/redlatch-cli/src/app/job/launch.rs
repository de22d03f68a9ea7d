//! The start of a command: this program in a group of its own, which waits until the guardian knows
//! the group, takes the terminal, and becomes the command.

use std::{fs::File, io::Read, os::unix::process::CommandExt, process::Command};

use super::terminal::Terminal;
use crate::app::{
    args::LaunchArgs,
    exit::{Failure, NOT_EXECUTABLE, NOT_FOUND, OWN},
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
    let mut command = Command::new(&args.program);
    if let Some((name, rest)) = args.command.split_first() {
        command.arg0(name).args(rest);
    }
    let error = command.exec();
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let program = args.program.display();
    Failure::new(
        code,
        format!("the command {program} cannot be executed: {error}"),
    )
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
