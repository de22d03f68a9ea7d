//! `cargo xtask check load`: runs all tests several times, then a service with many connections,
//! the command under a stopped server, the long histories of jobs and leaders, and the soak on each
//! topology, while other threads keep the processors busy. It prints the failed tests and the
//! number of their failures.

mod stops;
mod tower;

use std::{
    collections::BTreeMap,
    fmt, hint,
    num::NonZero,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::{
    command::{self, cargo},
    programs::{self, Program},
    servers::{self, Server, Wanted},
    soak,
    steps::Steps,
    suite::{self, Depth, Verdict},
    tally::Tally,
};

/// Runs the check.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let Some(options) = Options::parse(args)? else {
        println!("{USAGE}");
        return Ok(Verdict::Passed);
    };
    let found = servers::find(&options.wanted)?;
    let servers = servers::list(&found);
    let mut steps = Steps::default();
    let mut failures = Failures::default();
    // The test programs are built without load, because a slow compiler shows nothing.
    let built = steps.run("test programs", || options.build());
    if let Some(programs) = built {
        beside_busy_loops(options.busy, || {
            for _ in 0..options.rounds {
                steps.run("tests", || round(&programs, &found, &mut failures));
            }
            if options.connections != "0" {
                steps.run("connections", || tower::run(&options.connections));
            }
            if options.stops != "0" {
                let first = servers::list(&found[..1]);
                steps.run("command", || stops::run(&options.stops, &first));
            }
            for _ in 0..options.histories {
                steps.run("histories", || histories(&found));
            }
            if options.minutes != "0" {
                for topology in TOPOLOGIES {
                    steps.run(topology, || {
                        soak::run(&options.soak(topology), Some(&servers))
                    });
                }
            }
        });
    }
    println!("\n{steps}\n\n{failures}");
    Ok(steps.verdict())
}

/// Runs all tests once and records the failed ones.
fn round(programs: &[Program], found: &[Server], failures: &mut Failures) -> Result<(), String> {
    let mut tally = Tally::default();
    let lanes = suite::lanes(programs, found, found, Depth::Day);
    let outcome = programs::run_lanes(lanes, &mut tally);
    failures.add_round(&tally);
    outcome
}

/// Runs the long histories once, on the first server: they have twenty processes beside it.
fn histories(servers: &[Server]) -> Result<(), String> {
    let mut command = cargo(&HISTORIES);
    command.args(["history::", "--", "--nocapture"]);
    command.env("REDLATCH_TEST_SERVERS", servers::list(&servers[..1]));
    command.env("REDLATCH_LONG_HISTORY", "1");
    suite::counted(&mut command, &mut Tally::default())
}

/// Runs `work` while `count` threads compute without pause. They end when it returns or panics.
fn beside_busy_loops<T>(count: usize, work: impl FnOnce() -> T) -> T {
    struct EndOnDrop<'a>(&'a AtomicBool);
    impl Drop for EndOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let mut number = 0_u64;
                while !ended.load(Ordering::Relaxed) {
                    number = hint::black_box(number.wrapping_mul(31).wrapping_add(7));
                }
            });
        }
        let _end = EndOnDrop(&ended);
        work()
    })
}

/// The options of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    rounds: u32,
    /// How often the long histories run.
    histories: u32,
    /// The number of busy loops beside the tests.
    busy: usize,
    /// The minutes of soak per topology, in the soak's syntax.
    minutes: String,
    /// The number of connections to a service with a limit; "0" leaves them out.
    connections: String,
    /// The rounds in which the server is stopped under `redlatch run`; "0" leaves them out.
    stops: String,
    wanted: Wanted,
}

impl Options {
    /// Reads the arguments; `None` is a request for help.
    fn parse(args: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            rounds: 3,
            histories: 1,
            busy: thread::available_parallelism().map_or(2, NonZero::get),
            minutes: "10".to_owned(),
            connections: "10000".to_owned(),
            stops: "100".to_owned(),
            wanted: Wanted::default(),
        };
        let number = |text: &str| format!("{text:?} is no number");
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if let Some(list) = word.strip_prefix("--servers=") {
                options.wanted = Wanted::from_list(list)?;
                continue;
            }
            if matches!(word.as_str(), "--help" | "-h" | "help") {
                return Ok(None);
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--rounds" => options.rounds = value.parse().map_err(|_| number(value))?,
                "--histories" => options.histories = value.parse().map_err(|_| number(value))?,
                "--busy" => options.busy = value.parse().map_err(|_| number(value))?,
                "--minutes" => options.minutes.clone_from(value),
                "--connections" => {
                    let _: u32 = value.parse().map_err(|_| number(value))?;
                    options.connections.clone_from(value);
                }
                "--stops" => {
                    let _: u32 = value.parse().map_err(|_| number(value))?;
                    options.stops.clone_from(value);
                }
                _ => return Err(format!("unknown argument {word:?}\n\n{USAGE}")),
            }
        }
        let off = [&options.minutes, &options.connections, &options.stops];
        if (options.rounds, options.histories) == (0, 0) && off.iter().all(|text| *text == "0") {
            return Err("nothing is left to check".to_owned());
        }
        Ok(Some(options))
    }

    /// Builds what will run, and returns the test programs.
    fn build(&self) -> Result<Vec<Program>, String> {
        let programs = match self.rounds {
            0 => Vec::new(),
            _ => programs::build()?,
        };
        if self.histories > 0 {
            command::run(cargo(&HISTORIES).arg("--no-run"))?;
        }
        if self.connections != "0" {
            tower::build()?;
        }
        if self.stops != "0" {
            stops::build()?;
        }
        if self.minutes != "0" {
            soak::build()?;
        }
        Ok(programs)
    }

    fn soak(&self, topology: &str) -> Vec<String> {
        ["--topology", topology, "--minutes", &self.minutes]
            .map(str::to_owned)
            .to_vec()
    }
}

/// The number of failures of each test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Failures {
    rounds: u32,
    passed: u64,
    failed: BTreeMap<String, u32>,
}

impl Failures {
    fn add_round(&mut self, tally: &Tally) {
        self.rounds += 1;
        self.passed += tally.passed();
        for name in tally.failed_tests() {
            *self.failed.entry(name.clone()).or_default() += 1;
        }
    }
}

/// Formats a table of one line per failed test.
impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "failures in {} rounds of all tests:", self.rounds)?;
        for (name, times) in &self.failed {
            writeln!(f, "{times:>4}  {name}")?;
        }
        let failed: u32 = self.failed.values().sum();
        write!(f, "{failed:>4}  in total, {} passed", self.passed)
    }
}

const TOPOLOGIES: [&str; 4] = ["standalone", "replicated", "sentinel", "cluster"];

const HISTORIES: [&str; 7] = [
    "test",
    "--package",
    "redlatch-tests",
    "--features",
    "servers",
    "--test",
    "servers",
];

const USAGE: &str = "\
usage: cargo xtask check load [--rounds N] [--histories N] [--busy N] [--minutes M]
                              [--connections N] [--stops N] [--servers=path,path]

  --rounds N     how often all tests run (3)
  --histories N  how often the long histories of jobs and leaders run, on the first server (1)
  --busy N       how many loops compute beside them (one per processor)
  --minutes M    how long the soak runs on each of its four topologies (10); 0 leaves it out
  --connections N  how many connections a service with a limit has (10,000); 0 leaves it out
  --stops N      how often the server is stopped under `redlatch run` (100), beside a gigabyte
                 through a command and `ls` of 100,000 objects; 0 leaves them out";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Options>, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn arguments_are_read() {
        let options = parsed("--rounds 7 --histories 2 --busy 5 --minutes 0.5 --servers=/a");
        let options = options.expect("good arguments").expect("not help");
        assert_eq!((options.rounds, options.histories, options.busy), (7, 2, 5));
        assert_eq!(
            options.soak("cluster"),
            ["--topology", "cluster", "--minutes", "0.5"]
        );
        assert_eq!(parsed("--help"), Ok(None));
        for wrong in [
            "--rounds",
            "--rounds many",
            "--round 1",
            "--rounds 0 --histories 0 --minutes 0 --connections 0 --stops 0",
            "--stops some",
            "--connections many",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn failures_of_all_rounds_are_counted_by_test() {
        let mut failures = Failures::default();
        for lines in [
            &["test b ... FAILED", "test a::c ... FAILED", "test d ... ok"][..],
            &["test b ... FAILED"],
        ] {
            let mut tally = Tally::default();
            lines.iter().for_each(|line| tally.read(line));
            tally.read("test result: FAILED. 4 passed; 1 failed; 0 ignored");
            failures.add_round(&tally);
        }
        let table = "\
failures in 2 rounds of all tests:
   1  a::c
   2  b
   3  in total, 8 passed";
        assert_eq!(failures.to_string(), table);
    }

    #[test]
    fn busy_loops_end_with_the_work() {
        assert_eq!(beside_busy_loops(2, || 7), 7);
    }
}
