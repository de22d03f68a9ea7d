//! Where a database runs: a temporary folder, and a user, since databases refuse root.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

use crate::{
    command::{output, run, which},
    servers::install::{is_root, with_apt},
};

/// A temporary folder that belongs to a user. It is removed when this is dropped.
pub(super) struct Place {
    folder: PathBuf,
    /// The user that runs the database, if this process is root.
    user: Option<String>,
}

impl Place {
    /// Makes the folder.
    pub(super) fn new(name: &str, user: &Option<String>) -> Result<Self, String> {
        let folder = env::temp_dir().join(format!("redlatch-{name}-{}", process::id()));
        fs::create_dir(&folder).map_err(|error| cannot("make", &folder, &error))?;
        let place = Self {
            folder,
            user: user.clone(),
        };
        if let Some(user) = user {
            run(Command::new("chown").arg(user).arg(&place.folder))?;
        }
        Ok(place)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file that everybody may read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|error| cannot("write", &path, &error))?;
        Ok(path)
    }

    /// Returns a command that runs in the folder, as the user. `setpriv` becomes the program, so
    /// the process has the id of the database.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match &self.user {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={user}"));
                command.args(["--regid=nogroup", "--clear-groups", "--"]);
                command.arg(program);
                command
            }
        };
        command.current_dir(&self.folder).env("HOME", &self.folder);
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}", cannot("remove", &self.folder, &error));
        }
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// Returns the first of these users that exists, if this process is root. Other users run databases
/// as themselves.
pub(super) fn user(candidates: &[&str]) -> Result<Option<String>, String> {
    if !is_root() {
        return Ok(None);
    }
    let exists = |user: &&&str| output(Command::new("id").arg("-u").arg(user)).is_some();
    match candidates.iter().find(exists) {
        Some(user) => Ok(Some((*user).to_owned())),
        None => Err(format!(
            "databases refuse root, and there is none of {candidates:?}"
        )),
    }
}

/// Finds a program, and installs it with apt if it is absent.
pub(super) fn program(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    if let Some(path) = find(name) {
        return Ok(path);
    }
    println!("{name} is absent");
    with_apt(packages)?;
    find(name).ok_or_else(|| format!("{name} is absent, although {packages:?} are installed"))
}

/// Finds a program in the `PATH`, among those for root, or among the versions of PostgreSQL, which
/// Debian keeps outside of it.
fn find(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.flatten().map(|version| version.path().join("bin"));
    let folders = versions.chain(["/usr/sbin".into()]);
    let elsewhere = folders.map(|folder| folder.join(name));
    which(name).or_else(|| elsewhere.filter(|path| path.is_file()).max())
}
