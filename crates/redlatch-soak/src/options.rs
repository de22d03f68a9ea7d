//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

/// Runs all primitives on real servers under faults. Then the judge of histories judges the run.
///
/// The server is the first of `REDLATCH_TEST_SERVERS`, or redis-server or valkey-server of the
/// PATH.
#[derive(Clone, Debug, Parser)]
#[command(bin_name = "cargo xtask soak", after_help = FAULTS)]
pub(crate) struct Options {
    /// The duration
    #[arg(long = "minutes", value_name = "N", default_value = "1", value_parser = minutes)]
    pub(crate) length: Duration,
    /// The servers
    #[arg(long, default_value = "standalone")]
    pub(crate) topology: Topology,
    /// Your own servers, which you break yourself; of the faults below only victims
    #[arg(long, conflicts_with = "topology")]
    pub(crate) url: Option<String>,
    /// Some of the faults below, separated by commas, or all but hole, or none
    #[arg(long = "faults", value_name = "LIST", default_value = "all")]
    wanted: String,
    #[arg(skip)]
    pub(crate) faults: Vec<String>,
    /// The seed of the work and the faults
    #[arg(long, default_value_t = u64::from(fastrand::u32(..)), hide_default_value = true)]
    pub(crate) seed: u64,
    /// Write the holds of this process to holds.jsonl beside the history, for redlatch timeline
    #[arg(long)]
    pub(crate) record: bool,
    /// Report on a history that was kept, and run nothing
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(crate) check: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
}

/// A process that another one starts.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Part {
    /// The process that is killed, with the URL of its servers and a seed.
    #[command(hide = true)]
    Victim { url: String, seed: u64 },
}

/// The servers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    /// Three independent servers: one for most of the work, all three for the red-lock
    Standalone,
    /// A master and two replicas, which only this program fails over
    Replicated,
    /// A master and two replicas under three sentinels
    Sentinel,
    /// Three masters with a replica each
    Cluster,
}

impl Options {
    /// Returns the name of the servers.
    pub(crate) fn place(&self) -> String {
        match self.url {
            Some(_) => "own".to_owned(),
            None => format!("{:?}", self.topology).to_lowercase(),
        }
    }

    /// Reads the arguments. Ends the process if they are wrong, or after the help.
    pub(crate) fn read() -> Self {
        let mut options = Self::parse();
        let possible = match options.url {
            Some(_) => vec!["victims"],
            None => options.topology.faults(),
        };
        match choose(possible, &options.wanted) {
            Ok(faults) => options.faults = faults,
            Err(message) => {
                eprintln!("{message}");
                std::process::exit(2);
            }
        }
        options
    }
}

impl Topology {
    /// Returns the faults that this topology supports.
    fn faults(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Self::Standalone => &[],
            Self::Replicated | Self::Sentinel => &["failover", "crash", "lossy", "replica"],
            Self::Cluster => &["failover", "crash", "lossy", "replica", "migrate"],
        };
        [EVERYWHERE, own].concat()
    }
}

fn choose(possible: Vec<&str>, list: &str) -> Result<Vec<String>, String> {
    let wanted = match list {
        "all" => possible.clone(),
        "none" => Vec::new(),
        list => list.split(',').collect(),
    };
    for fault in &wanted {
        if !possible.contains(fault) && *fault != LONG {
            let possible = possible.join(", ");
            return Err(format!("no fault {fault:?} here; there are {possible}"));
        }
    }
    Ok(wanted.into_iter().map(str::to_owned).collect())
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("{text:?} minutes?"))?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| format!("{text:?} minutes?"))
}

/// The faults of any server, or on the way to it.
const EVERYWHERE: &[&str] = &[
    "kill", "stop", "flush", "clients", "full", "pause", "proxy", "victims",
];

/// Takes so long that a run has to ask for it.
const LONG: &str = "hole";

const FAULTS: &str = "\
Faults:
  kill      a server is killed and restarted with its data (AOF, synced always)
  stop      a server is stopped for up to two leases
  hole      a server is stopped for one to two minutes
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
  migrate   a slot moves to another master";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_those_of_the_topology() {
        let chosen = |list| choose(Topology::Cluster.faults(), list).unwrap();
        assert_eq!(chosen("kill,migrate"), ["kill", "migrate"]);
        assert_eq!(chosen("none"), [""; 0]);
        assert_eq!(chosen("hole"), ["hole"]);
        assert!(!chosen("all").contains(&"hole".to_owned()));
        assert!(choose(Topology::Standalone.faults(), "migrate").is_err());
        assert!(minutes("0.5").is_ok_and(|length| length == Duration::from_secs(30)));
        assert!(minutes("-1").is_err());
    }
}
