//! The servers that tests run against.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::{output, tool};

/// A server program that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    path: PathBuf,
    version: String,
}

impl Server {
    /// Runs a program to find out whether it is a server.
    fn inspect(path: &Path) -> Result<Self, String> {
        let version = output(Command::new(path).arg("--version"));
        let version = version.as_deref().and_then(parse_version);
        let version =
            version.ok_or_else(|| format!("{} is no server that runs here", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            version,
        })
    }

    /// Returns the parts of the version.
    fn number(&self) -> Vec<u32> {
        let number = self.version.rsplit(' ').next().unwrap_or_default();
        let parts = number.split('.').map_while(|part| part.parse().ok());
        parts.collect()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.path.display())
    }
}

/// Finds the servers to test against, and prints them: those that the variable names, or all that
/// there are. There is at least one.
pub(crate) fn find() -> Result<Vec<Server>, String> {
    let servers = match env::var(LIST) {
        Ok(list) if !list.is_empty() => these(&list)?,
        _ => any()?,
    };
    println!("testing against:");
    for server in &servers {
        println!("  {server}");
    }
    Ok(servers)
}

/// Writes the servers in the syntax of `REDLATCH_TEST_SERVERS`.
pub(crate) fn list(servers: &[Server]) -> String {
    let paths = servers.iter().map(|server| server.path.to_string_lossy());
    paths.collect::<Vec<_>>().join(",")
}

/// Returns the oldest and the newest of the servers, or the only one.
pub(crate) fn oldest_and_newest(servers: &[Server]) -> Vec<Server> {
    let oldest = servers.iter().min_by_key(|server| server.number());
    let newest = servers.iter().max_by_key(|server| server.number());
    let mut both: Vec<_> = oldest.into_iter().chain(newest).cloned().collect();
    both.dedup();
    both
}

/// Reads a list of paths, separated by commas or colons.
fn these(list: &str) -> Result<Vec<Server>, String> {
    let paths = list.split([',', ':']).map(str::trim);
    let paths: Vec<_> = paths.filter(|path| !path.is_empty()).collect();
    if paths.is_empty() {
        return Err(format!("{LIST} names no server"));
    }
    // Tests run in their own directories, where a relative path would have another meaning.
    let absolute = |path: &str| std::path::absolute(path).unwrap_or_else(|_| path.into());
    let servers = paths
        .into_iter()
        .map(|path| Server::inspect(&absolute(path)));
    servers.collect()
}

/// Returns those that there are, each version once. `tools.sh` fetches some.
fn any() -> Result<Vec<Server>, String> {
    let paths = output(&mut tool(["servers"])).unwrap_or_default();
    let mut distinct: Vec<Server> = Vec::new();
    for path in paths.lines() {
        match Server::inspect(Path::new(path)) {
            Ok(server) if distinct.iter().any(|one| one.version == server.version) => {}
            Ok(server) => distinct.push(server),
            Err(message) => println!("doing without: {message}"),
        }
    }
    if distinct.is_empty() {
        return Err(NO_SERVER.to_owned());
    }
    Ok(distinct)
}

/// Reads `Redis 7.0.15` from `Redis server v=7.0.15 sha=…`.
fn parse_version(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let kind = words.next()?;
    let number = words.find_map(|word| word.strip_prefix("v="))?;
    let known = ["Redis", "Valkey"].contains(&kind);
    known.then(|| format!("{kind} {number}"))
}

const LIST: &str = "REDLATCH_TEST_SERVERS";

const NO_SERVER: &str = "no server to test against. Install redis-server or valkey-server, or name the path of one \
    in REDLATCH_TEST_SERVERS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_and_newest_servers_are_chosen_by_their_numbers() {
        let server = |version: &str| Server {
            path: PathBuf::from("/a"),
            version: version.to_owned(),
        };
        let (old, middle, new) = (
            server("Redis 7.0.15"),
            server("Redis 7.2.1"),
            server("Valkey 10.1.2"),
        );
        let all = [middle, new.clone(), old.clone()];
        assert_eq!(oldest_and_newest(&all), [old.clone(), new]);
        assert_eq!(oldest_and_newest(std::slice::from_ref(&old)), [old]);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(
            parse_version("Valkey server v=9.1.2 sha=0").as_deref(),
            Some("Valkey 9.1.2")
        );
        assert_eq!(parse_version("cargo 1.89.0"), None);
    }

    #[test]
    fn program_that_is_no_server_is_refused() {
        assert!(Server::inspect(Path::new("/nonexistent")).is_err());
        assert!(these("/nonexistent").is_err() && these(" ,").is_err());
    }
}
