//! The command line.

use std::{path::PathBuf, time::Duration};

use crate::{
    contender::{FLOOR, KINDS, KNOWN, SCRIPTS, is_known},
    rounds::Effort,
    workload,
};

/// The task of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    /// Acts as a contender for another process.
    Work {
        contender: String,
        url: String,
    },
    /// Relays between the server at this port and its clients.
    Relay {
        server: u16,
        latency: Duration,
    },
    Measure(Plan),
}

/// The measurements to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Names of workloads, in the order of the command line.
    pub(crate) workloads: Vec<&'static str>,
    pub(crate) effort: Effort,
    /// The time that is added to each reply of a server.
    pub(crate) latency: Duration,
    /// The built-in contenders to measure. If it is empty, all are measured.
    pub(crate) only: Vec<String>,
    /// External programs as contenders: a name, and the words of the command.
    pub(crate) with: Vec<(String, Vec<String>)>,
    pub(crate) folder: PathBuf,
}

/// Reads the arguments. An error names the wrong argument and the reason.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Task, String> {
    let args: Vec<String> = args.collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match *words.as_slice() {
        ["worker", contender, url] if is_known(contender) => {
            return Ok(Task::Work {
                contender: contender.to_owned(),
                url: url.to_owned(),
            });
        }
        ["worker", contender, _] => return Err(format!("unknown contender {contender:?}")),
        ["worker", ..] => return Err("worker takes a contender and a url".to_owned()),
        ["relay", ref rest @ ..] => return relay(rest).ok_or_else(|| RELAY.to_owned()),
        _ => {}
    }
    if words.iter().any(|word| HELP.contains(word)) {
        return Ok(Task::Help);
    }
    let mut plan = Plan {
        workloads: Vec::new(),
        effort: if words.contains(&"--long") {
            LONG
        } else {
            SHORT
        },
        latency: Duration::ZERO,
        only: Vec::new(),
        with: Vec::new(),
        folder: PathBuf::from("target/bench"),
    };
    for word in words {
        read(&mut plan, word)?;
    }
    let starts_own = [workload::CLUSTER, workload::CAPACITY];
    let one_server = |name: &&str| plan.latency.is_zero() || !starts_own.contains(name);
    if let Some(name) = plan.workloads.iter().find(|name| !one_server(name)) {
        return Err(format!(
            "--latency is not for {name}, which starts servers of its own"
        ));
    }
    if plan.workloads.is_empty() {
        let all = workload::ALL.iter().map(|one| one.0);
        plan.workloads = all.filter(one_server).collect();
    }
    Ok(Task::Measure(plan))
}

/// Reads one argument of a plan.
fn read(plan: &mut Plan, word: &str) -> Result<(), String> {
    let Some((option, value)) = word.split_once('=') else {
        match word {
            "--long" => {}
            _ if word.starts_with('-') => return Err(unknown("option", word)),
            name => plan.workloads.push(workload::named(name)?),
        }
        return Ok(());
    };
    match option {
        "--rounds" => {
            let rounds = value.parse().ok().filter(|&rounds| rounds > 0);
            let rounds = rounds.ok_or_else(|| {
                format!("--rounds=N takes a whole number from 1, and not {value:?}")
            })?;
            plan.effort.rounds = rounds;
            plan.effort.few = rounds;
        }
        "--latency" => {
            plan.latency = time(value).ok_or_else(|| {
                format!("--latency=1ms takes a whole number of ms or us from 1, and not {value:?}")
            })?;
        }
        "--out" if value.is_empty() => return Err("--out=folder takes a folder".to_owned()),
        "--out" => plan.folder = value.into(),
        "--only" => {
            for name in value.split(',') {
                if !KNOWN.contains(&name) && !KINDS.contains(&name) && name != SCRIPTS {
                    let known = [&KNOWN[..], &KINDS[..], &[SCRIPTS]].concat().join(", ");
                    return Err(format!("unknown contender {name:?}; there are {known}"));
                }
                plan.only.push(name.to_owned());
            }
        }
        "--with" => plan.with.push(program(value)?),
        _ => return Err(unknown("option", option)),
    }
    Ok(())
}

/// Reads `name=command`.
fn program(value: &str) -> Result<(String, Vec<String>), String> {
    let (name, command) = value.split_once('=').unwrap_or_default();
    let words: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
    if name.is_empty() || words.is_empty() {
        return Err(format!(
            "--with=name=command takes a name and a command, and not {value:?}"
        ));
    }
    if is_known(name) || name == FLOOR {
        return Err(format!("{name:?} is a contender that is built in"));
    }
    Ok((name.to_owned(), words))
}

fn relay(rest: &[&str]) -> Option<Task> {
    let &[server, latency] = rest else {
        return None;
    };
    Some(Task::Relay {
        server: server.parse().ok()?,
        latency: Duration::from_micros(latency.parse().ok()?),
    })
}

/// Reads a time as `1ms` or `500us`.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix("us")) {
        (Some(number), _) => (number, 1_000),
        (_, Some(number)) => (number, 1),
        _ => return None,
    };
    let micros = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

fn unknown(what: &str, word: &str) -> String {
    format!("unknown {what} {word:?}")
}

const HELP: [&str; 3] = ["help", "--help", "-h"];

const RELAY: &str = "relay takes the port of a server and a number of µs";

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

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [workload…] [--long] [--rounds=N] [--latency=1ms] [--only=name,name] [--with=name=command]… [--out=folder]
       redlatch-bench worker <contender> <url>
       redlatch-bench relay <port> <µs>

workloads, all of them if none is named:
  W1  uncontended, one task              W6  10,000 and 100,000 holds, kept by the watchdog
  W2  uncontended, 64 and 512 tasks      W7  a fair lock's queue, 10 to 10,000 long
  W3  one name, in one process           W8  up to 10,000 readers of one name
  W4  one name, in several processes     W9  uncontended and held, over three masters
  W5  a semaphore                        W10 uncontended, every kind, 64 tasks
  W11 512 tasks, 200 names, 1 in 10 shared  W12 clients, holds and waiters: what each costs
  W13 one task beside up to 512 busy ones

  --long      9 rounds of 2 s instead of 5 of 0.5 s, and holds watched for 30 s: an hour instead of ten minutes
  --rounds    so many rounds
  --latency   the server's answers take so much longer; not for W9 and W12
  --only      only these of raw, redlatch, rslock, polling, scripts, fair, write
  --with      one more contender for W1 to W4: a program that speaks the protocol in contender/external.rs
  --out       where JSON and plots go; target/bench if absent, docs/book/src/explanation/performance to publish them

The server is the first of REDLATCH_TEST_SERVERS, else redis-server or valkey-server of the PATH.";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Task, String> {
        parse(line.iter().map(|&word| word.to_owned()))
    }

    fn plan(line: &[&str]) -> Plan {
        match parsed(line) {
            Ok(Task::Measure(plan)) => plan,
            other => panic!("{line:?} is {other:?}"),
        }
    }

    #[test]
    fn a_plan_is_read() {
        let plan = plan(&["w3", "W1", "--rounds=2", "--long", "--with=go=./lock -x"]);
        assert_eq!(plan.workloads, ["W3", "W1"]);
        assert_eq!((plan.effort.rounds, plan.effort.time), (2, LONG.time));
        assert!(plan.effort.long);
        let program = ["./lock", "-x"].map(str::to_owned).to_vec();
        assert_eq!(plan.with, [("go".to_owned(), program)]);
    }

    #[test]
    fn without_arguments_everything_is_measured_where_the_server_is() {
        let all = plan(&[]);
        assert_eq!((all.workloads.len(), all.effort), (13, SHORT));
        assert!(all.latency.is_zero() && all.only.is_empty() && all.with.is_empty());
        let away = plan(&["--latency=1500us", "--only=redlatch,fair"]);
        assert_eq!(away.latency, Duration::from_micros(1_500));
        assert_eq!((away.workloads.len(), away.only.len()), (11, 2));
    }

    #[test]
    fn a_relay_and_a_worker_are_read() {
        let latency = Duration::from_millis(1);
        let relay = Task::Relay {
            server: 6379,
            latency,
        };
        assert_eq!(parsed(&["relay", "6379", "1000"]), Ok(relay));
        let worker = Task::Work {
            contender: "fair".to_owned(),
            url: "redis://h".to_owned(),
        };
        assert_eq!(parsed(&["worker", "fair", "redis://h"]), Ok(worker));
        assert_eq!(parsed(&["W1", "--help"]), Ok(Task::Help));
    }

    #[test]
    fn wrong_arguments_are_refused_and_named() {
        let cases = [
            (&["W14"][..], "unknown workload \"W14\""),
            (&["W1", "--fast"], "unknown option \"--fast\""),
            (&["--fast=1"], "unknown option \"--fast\""),
            (&["--long=1"], "unknown option \"--long\""),
            (&["--rounds=0"], "from 1, and not \"0\""),
            (&["--rounds=many"], "from 1, and not \"many\""),
            (&["--latency=0ms"], "from 1, and not \"0ms\""),
            (&["--latency=1"], "from 1, and not \"1\""),
            (&["--latency=1ms", "W9"], "not for W9"),
            (&["--latency=1ms", "W12"], "not for W12"),
            (&["--only=redlach"], "unknown contender \"redlach\""),
            (&["--only="], "unknown contender \"\""),
            (&["--with=x"], "takes a name and a command"),
            (&["--with=raw=./x"], "\"raw\" is a contender"),
            (&["--with=floor=./x"], "\"floor\" is a contender"),
            (&["worker", "floor", "url"], "unknown contender \"floor\""),
            (&["--out="], "takes a folder"),
            (&["worker", "nobody", "url"], "unknown contender \"nobody\""),
            (&["worker"], "takes a contender and a url"),
            (&["relay", "x", "1"], "relay takes"),
        ];
        for (line, part) in cases {
            let message = parsed(line).unwrap_err();
            assert!(message.contains(part), "{line:?}: {message}");
        }
    }
}
