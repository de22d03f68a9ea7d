//! The program of a command, found before anything is acquired.

use std::{
    borrow::Cow,
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use crate::app::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// An executable file and the words of its command.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) words: Vec<OsString>,
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
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        let program = self.path.display();
        let message = format!("the command {program} cannot be executed: {error}");
        Failure::new(code, message)
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
            Err(errno) => failure = refused(&shown, errno),
        }
    }
    Err(failure)
}

fn refused(shown: &impl std::fmt::Display, errno: Errno) -> Failure {
    let error = std::io::Error::from(errno);
    let message = format!("the command {shown} cannot be executed: {error}");
    Failure::new(NOT_EXECUTABLE, message)
}

/// Fails if `path` is no file that this user may execute.
fn look(path: &Path) -> Result<(), Errno> {
    access(path, Access::EXISTS)?;
    if path.is_dir() {
        return Err(Errno::ISDIR);
    }
    access(path, Access::EXEC_OK)
}
