//! `cargo xtask check load`: runs all tests several times, then a service with many connections,
//! the command under a stopped server, and the soak on all topologies, while other threads keep the
//! processors busy. It prints the failed tests and the number of their failures.

use std::{
    collections::BTreeMap,
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::{
    command::script,
    programs::{self, Program},
    servers::{self, Server},
    steps::Steps,
    suite::{self, Depth},
    tally::Tally,
};

/// A test of which the gate runs a short case: its name, program, arguments and variables, which
/// spaces separate.
type Long = [&'static str; 4];

const LONG: [Long; 2] = [
    // Services over HTTP. The test raises its own limit of open files.
    [
        "connections",
        "redlatch-tower/it",
        "connections::many_connections_hold_no_permit_and_are_answered --exact",
        "REDLATCH_TEST_CONNECTIONS=10000",
    ],
    // Rounds of a server that is stopped, a gigabyte, many objects.
    [
        "command",
        "redlatch-cli/servers",
        "load:: --nocapture --test-threads=1",
        "REDLATCH_TEST_ROUNDS=100 REDLATCH_TEST_MEGABYTES=1024 REDLATCH_TEST_OBJECTS=100000",
    ],
];

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    let (rounds, busy, minutes) = options(args)?;
    let found = servers::find()?;
    let servers = servers::list(&found);
    let first = servers::list(&found[..1]);
    let mut sum = Tally::default();
    // The test programs are built without load, because a slow compiler shows nothing.
    let built = steps.run("test programs", programs::build);
    let soak = steps.run("soak", || script(["build-soak"]));
    if let (Some(programs), Some(())) = (built, soak) {
        beside_busy_loops(busy, || {
            for _ in 0..rounds {
                steps.run("tests", || round(&programs, &found, &mut sum));
            }
            for [name, program, args, vars] in LONG {
                steps.run(name, || long(&programs, &first, program, args, vars));
            }
            let soak = |topology: &str| {
                let words = format!("--topology {topology} --minutes {minutes}");
                let line = format!("soak of {topology}: soak-on SERVERS {words}");
                let servers: &str = &servers;
                move |steps: &mut Steps| steps.follow([&*line], &[("SERVERS", servers)])
            };
            // At the same time.
            steps.beside(soak("standalone"), |steps| {
                steps.beside(soak("replicated"), |steps| {
                    steps.beside(soak("sentinel"), soak("cluster"));
                });
            });
        });
        println!("\n{}", table(rounds, &sum));
    }
    Ok(())
}

/// Runs all tests once, and adds their results.
fn round(programs: &[Program], found: &[Server], sum: &mut Tally) -> Result<(), String> {
    let mut tally = Tally::default();
    let lanes = suite::lanes(programs, found, found, Depth::Day);
    let outcome = programs::run_lanes(lanes, &mut tally);
    sum.add(tally, "");
    outcome
}

fn long(
    programs: &[Program],
    servers: &str,
    name: &str,
    args: &str,
    vars: &str,
) -> Result<(), String> {
    let program = programs.iter().find(|program| program.name == name);
    let program = program.ok_or_else(|| format!("{name} is not built"))?;
    let mut run = program.run(servers, suite::cores(), "0");
    let vars = vars.split(' ').filter_map(|var| var.split_once('='));
    run.command.args(args.split(' ')).envs(vars);
    programs::run_lanes(vec![vec![run]], &mut Tally::default())
}

/// Runs `work` while `count` threads compute without pause. They end when it returns.
fn beside_busy_loops<T>(count: usize, work: impl FnOnce() -> T) -> T {
    let ended = Arc::new(AtomicBool::new(false));
    for _ in 0..count {
        let ended = Arc::clone(&ended);
        thread::spawn(move || {
            let mut number = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                number = hint::black_box(number.wrapping_mul(31).wrapping_add(7));
            }
        });
    }
    let value = work();
    ended.store(true, Ordering::Relaxed);
    value
}

/// Reads how often all tests run, how many loops are busy beside them, and the minutes of soaks,
/// in the soak's syntax.
fn options(args: &[String]) -> Result<(u32, usize, String), String> {
    let (mut rounds, mut busy, mut minutes) = (1, suite::cores(), "10".to_owned());
    for arg in args {
        let wrong = |_| format!("{arg:?} is wrong\n\n{USAGE}");
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("--rounds", value) => rounds = value.parse().map_err(wrong)?,
            ("--busy", value) => busy = value.parse().map_err(wrong)?,
            ("--minutes", value) if !value.is_empty() => value.clone_into(&mut minutes),
            _ => return Err(format!("unknown argument {arg:?}\n\n{USAGE}")),
        }
    }
    Ok((rounds, busy, minutes))
}

/// Returns a table of one line per failed test.
fn table(rounds: u32, sum: &Tally) -> String {
    let mut times: BTreeMap<_, u32> = BTreeMap::new();
    for name in &sum.failed_tests {
        *times.entry(name).or_default() += 1;
    }
    let mut table = format!("failures in {rounds} rounds of all tests:\n");
    for (name, times) in times {
        table += &format!("{times:>4}  {name}\n");
    }
    let (failed, passed) = (sum.failed_tests.len(), sum.passed);
    table + &format!("{failed:>4}  in total, {passed} passed")
}

const USAGE: &str = "\
usage: cargo xtask check load [--rounds=N] [--busy=N] [--minutes=M]

  --rounds=N   how often all tests run (1)
  --busy=N     how many loops compute beside them (one per processor)
  --minutes=M  how long the soak runs on its four topologies, at the same time (10)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parsed = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            options(&words)
        };
        let good = parsed("--rounds=7 --busy=5 --minutes=0.5");
        assert_eq!(good, Ok((7, 5, "0.5".to_owned())));
        for wrong in ["--rounds", "--rounds=many", "--round=1", "--minutes"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn failures_of_all_rounds_are_counted_by_test() {
        let mut sum = Tally::default();
        for lines in [
            &["test b ... FAILED", "test a::c ... FAILED", "test d ... ok"][..],
            &["test b ... FAILED"],
        ] {
            let mut tally = Tally::default();
            lines.iter().for_each(|line| tally.read(line));
            tally.read("test result: FAILED. 4 passed; 1 failed; 0 ignored");
            sum.add(tally, "");
        }
        let expected = "\
failures in 2 rounds of all tests:
   1  a::c
   2  b
   3  in total, 8 passed";
        assert_eq!(table(2, &sum), expected);
    }

    #[test]
    fn busy_loops_end_with_the_work() {
        assert_eq!(beside_busy_loops(2, || 7), 7);
    }
}
