//! The command line.

use std::{num::NonZero, path::PathBuf, process, time::Duration};

use clap::{Parser, Subcommand};

use crate::{
    contender::{KINDS, KNOWN, SCRIPTS, is_known},
    rounds::Effort,
    workload,
};

/// Measures the locks of redlatch beside the limit and beside other locks.
///
/// The server is the first of `REDLATCH_TEST_SERVERS`, or redis-server or valkey-server of the
/// PATH.
#[derive(Clone, Debug, Parser)]
#[command(
    bin_name = "cargo xtask bench",
    after_help = workload::list(),
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Plan {
    /// Some of the workloads below, or all if none is named
    #[arg(value_parser = workload::named)]
    pub(crate) workloads: Vec<&'static str>,
    /// 9 rounds of 2 s instead of 5 of 0.5 s, and holds watched for 30 s: an hour instead of ten
    /// minutes
    #[arg(long)]
    long: bool,
    /// The number of rounds
    #[arg(long, value_name = "N")]
    rounds: Option<NonZero<usize>>,
    #[arg(skip)]
    pub(crate) effort: Effort,
    /// The time by which the server's answers take longer; not for W9 and W12
    #[arg(
        long,
        value_name = "1ms",
        default_value = "0ms",
        hide_default_value = true
    )]
    #[arg(value_parser = time)]
    pub(crate) latency: Duration,
    /// Only these of raw, redlatch, rslock, polling, scripts, fair, write
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', value_parser = contender)]
    pub(crate) only: Vec<String>,
    /// One more contender for W1 to W4 and W14: a program that speaks the protocol in
    /// contender/external.rs
    #[arg(long, value_name = "NAME=COMMAND", value_parser = program)]
    pub(crate) with: Vec<(String, Vec<String>)>,
    /// Where JSON and plots go; docs/book/src/explanation/performance to publish them
    #[arg(long = "out", value_name = "FOLDER", default_value = "target/bench")]
    pub(crate) folder: PathBuf,
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
}

/// A process that another one starts.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Part {
    /// Acts as a contender for another process
    Worker {
        #[arg(value_parser = worker)]
        contender: String,
        url: String,
    },
    /// Relays between the server at this port and its clients, in so many µs
    Relay { server: u16, micros: u64 },
}

impl Plan {
    /// Reads the arguments. Ends the process if they are wrong, or after the help.
    pub(crate) fn read() -> Self {
        Self::parse().completed().unwrap_or_else(|message| {
            eprintln!("{message}");
            process::exit(2);
        })
    }

    fn completed(mut self) -> Result<Self, String> {
        self.effort = if self.long { LONG } else { SHORT };
        if let Some(rounds) = self.rounds.map(NonZero::get) {
            (self.effort.rounds, self.effort.few) = (rounds, rounds);
        }
        let starts_own = [workload::CLUSTER, workload::CAPACITY];
        let one_server = |name: &&str| self.latency.is_zero() || !starts_own.contains(name);
        if let Some(name) = self.workloads.iter().find(|name| !one_server(name)) {
            return Err(format!(
                "--latency is not for {name}, which starts its own servers"
            ));
        }
        if self.workloads.is_empty() {
            let all = workload::ALL.iter().map(|one| one.0);
            self.workloads = all.filter(one_server).collect();
        }
        Ok(self)
    }
}

fn contender(name: &str) -> Result<String, String> {
    let known = [&KNOWN[..], &KINDS[..], &[SCRIPTS]].concat();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("there are {}", known.join(", ")))
}

fn worker(name: &str) -> Result<String, &'static str> {
    let known = is_known(name).then(|| name.to_owned());
    known.ok_or("unknown contender")
}

/// Reads `name=command`.
fn program(value: &str) -> Result<(String, Vec<String>), String> {
    let (name, command) = value.split_once('=').unwrap_or_default();
    let words: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
    if name.is_empty() || words.is_empty() {
        return Err("a name and a command are needed, such as go=./lock".to_owned());
    }
    if is_known(name) {
        return Err(format!("{name:?} is a contender that is built in"));
    }
    Ok((name.to_owned(), words))
}

/// Reads a time as `1ms` or `500us`.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix("us")) {
        (Some(number), _) => (number, 1_000),
        (_, Some(number)) => (number, 1),
        _ => ("", 1),
    };
    let micros = number.parse::<u64>().ok();
    let micros = micros.and_then(|number| number.checked_mul(unit));
    let micros = micros.ok_or("a whole number of ms or us is needed, such as 1ms")?;
    Ok(Duration::from_micros(micros))
}

const SHORT: Effort = Effort {
    rounds: 5,
    few: 3,
    time: Duration::from_millis(500),
    long: false,
};

const LONG: Effort = Effort {
    rounds: 9,
    few: 9,
    time: Duration::from_secs(2),
    long: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Plan, String> {
        let plan = Plan::try_parse_from([&["bench"], line].concat());
        plan.map_err(|error| error.to_string())?.completed()
    }

    #[test]
    fn a_plan_is_read() {
        let plan = parsed(&["w3", "W1", "--rounds=2", "--long", "--with=go=./lock -x"]).unwrap();
        assert_eq!(plan.workloads, ["W3", "W1"]);
        assert_eq!((plan.effort.rounds, plan.effort.time), (2, LONG.time));
        let program = ["./lock", "-x"].map(str::to_owned).to_vec();
        assert_eq!(plan.with, [("go".to_owned(), program)]);
        let all = parsed(&[]).unwrap();
        assert_eq!((all.workloads.len(), all.effort), (14, SHORT));
        let away = parsed(&["--latency=1500us", "--only=redlatch,fair"]).unwrap();
        assert_eq!(away.latency, Duration::from_micros(1_500));
        assert_eq!((away.workloads.len(), away.only.len()), (12, 2));
        let worker = parsed(&["worker", "fair", "redis://h"]).unwrap().part;
        assert!(matches!(worker, Some(Part::Worker { contender, .. }) if contender == "fair"));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for line in [
            &["W15"][..],
            &["--rounds=0"],
            &["--latency=1"],
            &["--latency=1ms", "W9"],
            &["--only=redlach"],
            &["--only="],
            &["--with=x"],
            &["--with=raw=./x"],
            &["--with=floor=./x"],
            &["worker", "ceiling", "url"],
        ] {
            assert!(parsed(line).is_err(), "{line:?}");
        }
    }
}
