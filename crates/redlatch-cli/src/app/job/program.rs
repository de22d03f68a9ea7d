//! The program of a command, found before anything is acquired, and the start of the command: this
//! program in a group of its own, which waits until the guardian knows the group, takes the
//! terminal, and becomes the command.

use std::{
    borrow::Cow,
    env,
    ffi::{OsStr, OsString},
    fmt::Display,
    fs::File,
    io::{self, Read},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use super::terminal::Terminal;
use crate::app::{
    args::LaunchArgs,
    exit::{Failure, NOT_EXECUTABLE, NOT_FOUND, OWN},
};

/// An executable file and the words of its command.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) path: PathBuf,
    pub(super) words: Vec<OsString>,
}

impl Program {
    /// Finds the program of a command, as a shell does: by `PATH` if it has no slash.
    pub(crate) fn find(words: &[OsString]) -> Result<Self, Failure> {
        let Some(name) = words.first().filter(|name| !name.is_empty()) else {
            return Err(Failure::usage("the command is empty"));
        };
        Ok(Self {
            path: search(name)?,
            words: words.to_vec(),
        })
    }

    /// Becomes the command. Returns only if it cannot.
    pub(crate) fn exec(&self, environment: &[(&str, &str)]) -> Failure {
        let mut command = Command::new(&self.path);
        if let Some((name, rest)) = self.words.split_first() {
            command.arg0(name).args(rest);
        }
        let error = command.envs(environment.iter().copied()).exec();
        refused(self.path.display(), &error)
    }
}

/// Returns what others see as the holder: the first word of the command.
pub(crate) fn application(words: &[OsString]) -> String {
    let first = words.first().map(|word| word.to_string_lossy());
    first.map_or_else(|| "redlatch elect".into(), Cow::into_owned)
}

fn search(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = name.display();
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let in_folder = |folder: PathBuf| match folder.as_os_str().is_empty() {
        true => Path::new(".").join(name),
        false => folder.join(name),
    };
    let (places, nowhere) = match name.as_bytes().contains(&b'/') {
        true => (vec![PathBuf::from(name)], ""),
        false => (
            env::split_paths(&path).map(in_folder).collect(),
            " in the PATH; redlatch uses no shell",
        ),
    };
    let message = format!("there is no command {shown}{nowhere}");
    let mut failure = Failure::new(NOT_FOUND, message);
    for place in places {
        match look(&place) {
            Ok(()) => return Ok(place),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => failure = refused(&shown, &errno.into()),
        }
    }
    Err(failure)
}

fn refused(program: impl Display, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let message = format!("the command {program} cannot be executed: {error}");
    Failure::new(code, message)
}

/// Fails if `path` is no file that this user may execute.
fn look(path: &Path) -> Result<(), Errno> {
    access(path, Access::EXISTS)?;
    if path.is_dir() {
        return Err(Errno::ISDIR);
    }
    access(path, Access::EXEC_OK)
}

/// Starts the command in this process. Returns only if it cannot.
pub(crate) fn launch(args: &LaunchArgs) -> Failure {
    // The command dies with its wrapper even if the guardian is killed at the same time. The
    // wrapper that is gone by now closes the pipe, so that is no race.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match wait(args.go) {
        Ok(true) => {}
        // The process that starts the command is dead, and the command would have no guardian.
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
fn wait(descriptor: i32) -> io::Result<bool> {
    // The descriptor has no owner in this process, so it is opened by its path.
    let mut pipe = ["/proc/self/fd", "/dev/fd"]
        .iter()
        .map(|folder| File::open(format!("{folder}/{descriptor}")))
        .find(Result::is_ok)
        .unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))?;
    // The command does not inherit it.
    nix::unistd::close(descriptor)?;
    let mut byte = [0];
    Ok(pipe.read(&mut byte)? == 1)
}
