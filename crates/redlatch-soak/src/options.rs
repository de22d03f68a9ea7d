//! The command line.

use std::time::Duration;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) topology: Topology,
    pub(crate) faults: Vec<String>,
    pub(crate) seed: u64,
    /// The server program. Without one, it is the first of `REDLATCH_TEST_SERVERS` or of the
    /// `PATH`.
    pub(crate) server: Option<String>,
    /// The holds are recorded for `redlatch timeline`.
    pub(crate) record: bool,
}

/// The servers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// Three independent servers: one for most of the work, all three for the red-lock.
    Standalone,
    /// A master and two replicas. Only this program fails them over.
    Replicated,
    /// A master and two replicas under three sentinels.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
}

/// The task of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Soak(Options),
    /// Checks a recorded history.
    Check(String),
    /// Runs the process that is killed, with the URL of its servers and a seed.
    Victim(String, u64),
}

/// Reads the arguments.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Task, String> {
    let args: Vec<_> = args.collect();
    let words: Vec<_> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["victim", url, seed] => return Ok(Task::Victim(url.to_owned(), number(seed)?)),
        ["--check", file] => return Ok(Task::Check(file.to_owned())),
        _ => {}
    }
    let mut options = Options {
        length: Duration::from_secs(60),
        topology: Topology::Standalone,
        faults: Vec::new(),
        seed: fastrand::u32(..).into(),
        server: None,
        record: false,
    };
    let mut faults = "all";
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if matches!(word, "--help" | "-h" | "help") {
            return Ok(Task::Help);
        }
        if word == "--record" {
            options.record = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} what?"))?;
        match word {
            "--minutes" => options.length = minutes(value)?,
            "--topology" => options.topology = topology(value)?,
            "--faults" => faults = value,
            "--seed" => options.seed = number(value)?,
            "--server" => options.server = Some(value.to_owned()),
            _ => return Err(format!("unknown argument {word:?}")),
        }
    }
    options.faults = options.topology.choose(faults)?;
    Ok(Task::Soak(options))
}

impl Topology {
    /// Returns its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Replicated => "replicated",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }

    /// Returns the faults that this topology supports.
    pub(crate) fn faults(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Self::Standalone => &[],
            Self::Replicated | Self::Sentinel => &["failover", "crash", "lossy", "replica"],
            Self::Cluster => &["failover", "crash", "lossy", "replica", "migrate"],
        };
        [EVERYWHERE, own].concat()
    }

    fn choose(self, list: &str) -> Result<Vec<String>, String> {
        let possible = self.faults();
        let wanted = match list {
            "all" => possible.clone(),
            "none" => Vec::new(),
            list => list.split(',').collect(),
        };
        for fault in &wanted {
            if !possible.contains(fault) {
                let (name, possible) = (self.name(), possible.join(", "));
                return Err(format!(
                    "no fault {fault:?} on {name}; there are {possible}"
                ));
            }
        }
        Ok(wanted.into_iter().map(str::to_owned).collect())
    }
}

fn topology(name: &str) -> Result<Topology, String> {
    let mut all = [
        Topology::Standalone,
        Topology::Replicated,
        Topology::Sentinel,
        Topology::Cluster,
    ]
    .into_iter();
    all.find(|topology| topology.name() == name)
        .ok_or_else(|| format!("no topology {name:?}"))
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} minutes?"))?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| format!("{text:?} minutes?"))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// The faults of any server, or on the way to it.
const EVERYWHERE: &[&str] = &[
    "kill", "stop", "flush", "clients", "full", "pause", "proxy", "victims",
];

pub(crate) const USAGE: &str = "\
usage: cargo xtask soak [--minutes N] [--topology standalone|replicated|sentinel|cluster]
                        [--faults all|none|kill,stop,…] [--seed S] [--server PATH]
                        [--record]
       cargo xtask soak --check FILE      checks a history that was kept

--record writes the holds of this process to holds.jsonl beside the history, for redlatch timeline

faults:
  kill      a server is killed and restarted with its data (AOF, synced always)
  stop      a server is stopped for up to two leases
  flush     a server forgets its scripts
  clients   a server closes its connections, or those that subscribed
  full      a server takes no writes for lack of memory
  pause     a server takes writes later
  proxy     a client's connections are cut, stalled, mute, or lose replies
  victims   client processes are killed or stopped beyond the lease
  replica   a replica is killed and restarted
  failover  a replica takes over, by order
  crash     a master is killed and a replica takes over
  lossy     the same, after a while without replication: grants are forgotten
  migrate   a slot moves to another master

REDLATCH_TEST_SERVERS names the server programs, the first of which is used; otherwise the
PATH is searched.";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_read() {
        let line = "--minutes 0.5 --topology cluster --record --faults kill,migrate --seed 7";
        let options = Options {
            length: Duration::from_secs(30),
            topology: Topology::Cluster,
            faults: vec!["kill".to_owned(), "migrate".to_owned()],
            seed: 7,
            server: None,
            record: true,
        };
        assert_eq!(parsed(line), Ok(Task::Soak(options)));
        assert_eq!(parsed("--help"), Ok(Task::Help));
        assert_eq!(parsed("--check x"), Ok(Task::Check("x".to_owned())));
    }

    #[test]
    fn what_is_impossible_is_refused() {
        assert!(parsed("--faults migrate").is_err());
        assert!(parsed("--topology ring").is_err());
        assert!(parsed("--minutes").is_err());
        assert!(parsed("--minutes -1").is_err());
        assert!(parsed("--nonsense 1").is_err());
    }
}
