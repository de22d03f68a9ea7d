//! The command line.

use std::{path::PathBuf, time::Duration};

use crate::{rounds::Effort, workload};

/// What the command line asks for.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Help,
    /// Be a contender of another process.
    Work {
        contender: String,
        url: String,
    },
    Measure(Plan),
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Names of workloads, in the order of the command line.
    pub(crate) workloads: Vec<&'static str>,
    pub(crate) effort: Effort,
    /// Only these of the contenders that are built in, if any are named.
    pub(crate) only: Vec<String>,
    /// Programs that are contenders: a name, and the words of the command.
    pub(crate) with: Vec<(String, Vec<String>)>,
    pub(crate) folder: PathBuf,
}

pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Task, String> {
    let args: Vec<String> = args.collect();
    if let [work, contender, url] = args.as_slice()
        && work == "worker"
    {
        return Ok(Task::Work {
            contender: contender.clone(),
            url: url.clone(),
        });
    }
    let mut plan = Plan {
        workloads: Vec::new(),
        effort: SHORT,
        only: Vec::new(),
        with: Vec::new(),
        folder: PathBuf::from("target/bench"),
    };
    for arg in &args {
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("help" | "--help" | "-h", _) => return Ok(Task::Help),
            ("--long", "") => plan.effort = LONG,
            ("--rounds", number) => {
                let rounds = number.parse().ok().filter(|&rounds| rounds > 0);
                plan.effort.rounds = rounds.ok_or("--rounds=N takes a number from 1")?;
            }
            ("--out", folder) if !folder.is_empty() => plan.folder = folder.into(),
            ("--only", names) if !names.is_empty() => {
                plan.only = names.split(',').map(str::to_owned).collect();
            }
            ("--with", contender) => {
                let (name, command) = contender.split_once('=').ok_or(WITH)?;
                let words: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
                if name.is_empty() || words.is_empty() {
                    return Err(WITH.to_owned());
                }
                plan.with.push((name.to_owned(), words));
            }
            (name, "") => plan.workloads.push(workload::named(name)?),
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    if plan.workloads.is_empty() {
        plan.workloads = workload::ALL.iter().map(|one| one.0).collect();
    }
    Ok(Task::Measure(plan))
}

const WITH: &str = "--with=name=command takes a name and a command";

const SHORT: Effort = Effort {
    rounds: 5,
    time: Duration::from_millis(500),
    long: false,
};

const LONG: Effort = Effort {
    rounds: 9,
    time: Duration::from_secs(2),
    long: true,
};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [workload…] [--long] [--rounds=N] [--only=name,name] [--with=name=command]… [--out=folder]
       redlatch-bench worker <contender> <url>

workloads, all of them if none is named:
  W1  uncontended, one task              W6  10,000 and 100,000 holds, kept by the watchdog
  W2  uncontended, 64 and 512 tasks      W7  a fair lock's queue, 10 to 10,000 long
  W3  one name, in one process           W8  up to 10,000 readers of one name
  W4  one name, in several processes     W9  uncontended and held, over three masters
  W5  a semaphore

  --long      the numbers of the targets: more and longer rounds, some of an hour; else some minutes
  --only      only these of raw, redlatch, rslock, polling
  --with      one more contender: a program that speaks the protocol in contender/external.rs
  --out       where tables, JSON and plots go; target/bench if absent

The server is the first of REDLATCH_TEST_SERVERS, else redis-server or valkey-server of the PATH.";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Task, String> {
        parse(line.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn a_plan_is_read() {
        let Ok(Task::Measure(plan)) =
            parsed(&["w3", "W1", "--long", "--rounds=2", "--with=go=./lock -x"])
        else {
            panic!("no plan");
        };
        assert_eq!(plan.workloads, ["W3", "W1"]);
        assert_eq!((plan.effort.rounds, plan.effort.long), (2, true));
        assert_eq!(
            plan.with,
            [("go".to_owned(), vec!["./lock".to_owned(), "-x".to_owned()])]
        );
        let Ok(Task::Measure(all)) = parsed(&[]) else {
            panic!("no plan");
        };
        assert_eq!(all.workloads.len(), 9);
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for line in [&["W10"][..], &["--rounds=0"], &["--with=x"], &["--fast"]] {
            assert!(parsed(line).is_err(), "{line:?}");
        }
    }
}
