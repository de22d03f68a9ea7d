//! The server binaries of this machine.

use std::{
    env,
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// A server program that tests can start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerBinary {
    /// The path of the program.
    pub path: PathBuf,
    /// The family of the server.
    pub kind: ServerKind,
    /// The version it reports.
    pub version: Version,
}

/// The family of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// A server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32, pub u32);

impl ServerBinary {
    /// Returns all servers of this machine that tests must run against, in the order of the list.
    ///
    /// The list is `REDLATCH_TEST_SERVERS`, paths separated by commas or colons. Without it, the
    /// list is `redis-server` and `valkey-server` of the `PATH`.
    ///
    /// # Panics
    ///
    /// Panics if there is none, or if a program of the list does not report itself as a server.
    /// Such a test run would prove nothing.
    pub fn all() -> Vec<Self> {
        static FOUND: LazyLock<Result<Vec<ServerBinary>, String>> = LazyLock::new(find);
        match &*FOUND {
            Ok(found) => found.clone(),
            Err(message) => panic!("{message}"),
        }
    }

    /// Returns all servers of the variable `REDLATCH_ALL_SERVERS`, or else [`all`](Self::all): some
    /// features are those of few servers.
    pub fn every() -> Vec<Self> {
        let listed = env::var("REDLATCH_ALL_SERVERS").unwrap_or_default();
        match &split_list(&listed)[..] {
            [] => Self::all(),
            paths => {
                let found = paths.iter().map(Self::inspect);
                found.collect::<Result<_, _>>().unwrap()
            }
        }
    }

    /// Returns the first of [`all`](Self::all), for tests that any server can serve.
    pub fn any() -> Self {
        Self::all().swap_remove(0)
    }

    /// Inspects the program at `path`. An error says why it is not a server.
    pub fn inspect(path: impl Into<PathBuf>) -> Result<Self, String> {
        let path = path.into();
        let output = Command::new(&path)
            .arg("--version")
            .output()
            .map_err(|error| format!("{} cannot be run: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (kind, version) = parse_version_line(&text)
            .ok_or_else(|| format!("{} says it is {:?}, no server", path.display(), text.trim()))?;
        Ok(Self {
            path,
            kind,
            version,
        })
    }

    /// Tells whether the server was built with TLS. It asks the server to listen with a certificate
    /// that does not exist.
    pub fn supports_tls(&self) -> bool {
        let output = Command::new(&self.path)
            .current_dir(env::temp_dir())
            .args("--port 0 --tls-port 1 --tls-cert-file /nonexistent".split(' '))
            .args(["--save", "", "--daemonize", "no"])
            .output();
        output.is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).contains("Failed to configure TLS")
        })
    }

    /// Tells whether the configuration must allow `DEBUG`.
    pub(crate) fn gates_debug(&self) -> bool {
        self.version >= Version(7, 0, 0)
    }
}

impl fmt::Display for ServerBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "{:?} {} ({path})", self.kind, self.version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

fn find() -> Result<Vec<ServerBinary>, String> {
    let listed = env::var(LIST).unwrap_or_default();
    let mut found = Vec::new();
    for path in split_list(&listed) {
        let inspected = ServerBinary::inspect(path);
        found.push(inspected.map_err(|error| format!("{LIST}: {error}"))?);
    }
    if found.is_empty() {
        let path = on_path(&env::var_os("PATH").unwrap_or_default());
        let inspected = path.into_iter().map(ServerBinary::inspect);
        found.extend(inspected.filter_map(Result::ok));
    }
    (!found.is_empty())
        .then_some(found)
        .ok_or_else(|| NONE_FOUND.to_owned())
}

fn split_list(list: &str) -> Vec<&str> {
    list.split([',', ':'])
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .collect()
}

/// Returns the servers on a search path. A program is started under the path where it was found:
/// Debian's `redis-server` is a link to a program that acts by its name.
fn on_path(path: &OsStr) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in env::split_paths(path) {
        for program in ["redis-server", "valkey-server"] {
            let candidate = folder.join(program);
            let known = |other: &PathBuf| same_file(other, &candidate);
            if candidate.is_file() && !found.iter().any(known) {
                found.push(candidate);
            }
        }
    }
    found
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Reads `Redis server v=7.0.15 sha=…` and `Valkey server v=9.1.2 sha=…`.
fn parse_version_line(text: &str) -> Option<(ServerKind, Version)> {
    let mut words = text.split_whitespace();
    let kind = match words.next()? {
        "Redis" => ServerKind::Redis,
        "Valkey" => ServerKind::Valkey,
        _ => return None,
    };
    let numbers = words.find_map(|word| word.strip_prefix("v="))?;
    let mut numbers = numbers.split('.').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some((kind, Version(next()?, next()?, next().unwrap_or(0))))
}

const LIST: &str = "REDLATCH_TEST_SERVERS";

const NONE_FOUND: &str = "no server to test against: neither redis-server nor valkey-server is on the PATH and \
    REDLATCH_TEST_SERVERS is not set. Install one, set the variable to the paths of some, or run `cargo xtask test`, \
    which installs one";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_lines_are_read() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1";
        let valkey = "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1";
        for (line, read) in [
            (redis, Some((ServerKind::Redis, Version(7, 0, 15)))),
            (valkey, Some((ServerKind::Valkey, Version(9, 1, 2)))),
            ("redis-cli 7.0.15", None),
            ("", None),
        ] {
            assert_eq!(parse_version_line(line), read, "{line}");
        }
    }

    #[test]
    fn lists_are_split_at_commas_and_colons() {
        let split = split_list("/a/redis-server, /b/x:/c/y,");
        assert_eq!(split, ["/a/redis-server", "/b/x", "/c/y"]);
        assert!(split_list("").is_empty());
    }
}
