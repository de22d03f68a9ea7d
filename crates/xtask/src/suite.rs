//! The test suite.

use std::{
    num::NonZero,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    command::{script, tool},
    programs::{self, Program, Run, WHOLE},
    servers::{self, Server},
    steps::Steps,
    tally::Tally,
};

/// How much a run covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What finds most faults per minute. Tests that wait run on the oldest and the newest server.
    Day,
    /// Everything on everything.
    Night,
}

/// The variables that tests read by night.
const NIGHT: [(&str, &str); 4] = [
    ("REDLATCH_NIGHT", "1"),
    ("REDLATCH_SEEDS", "600"),
    ("REDLATCH_CASES", "120000"),
    ("PROPTEST_CASES", "20000"),
];

/// The programs whose tests mostly wait for leases and processes, the longest first, with the tests
/// that each may run at a time per core. They run beside the others and go before them, since they
/// meet real clocks.
const WAITING: [(&str, usize); 5] = [
    ("redlatch-tests/behaviours", 8),
    ("redlatch-tests/servers", 4),
    ("redlatch-tests/server", 6),
    ("redlatch-cli/cli", 4),
    ("redlatch-cli/servers", 4),
];

/// Runs all tests, and finally prints the times of the steps and the sums.
pub(crate) fn test() -> Result<(), String> {
    println!("All tests: about 13 minutes on two idle cores, from a clean clone.");
    let mut steps = Steps::default();
    let tally = run(Depth::Day, &mut steps)?;
    print_failures(&tally);
    println!("\n{steps}\n\n{tally}");
    steps.verdict()
}

/// Prints what is known of the failed tests, and the command that runs each of them alone.
pub(crate) fn print_failures(tally: &Tally) {
    println!();
    for line in &tally.failures {
        println!("{line}");
    }
    if !tally.again.is_empty() {
        println!("\nto run a failed test alone:");
    }
    for command in &tally.again {
        println!("  {command}");
    }
}

/// Runs all tests as steps, and the simulator beside them. The tally holds the results of the
/// tests.
///
/// # Errors
///
/// Returns an error if there is no server to test against.
pub(crate) fn run(depth: Depth, steps: &mut Steps) -> Result<Tally, String> {
    let found = servers::find()?;
    let mut tally = Tally::default();
    println!("on two idle cores, builds take about 4 and 2 min by day, and then tests 6 min");
    let built = steps.run("test programs", programs::build);
    let simulator = steps.run("simulator", || script(["build-sim"]));
    let simulate = |steps: &mut Steps| {
        if simulator.is_some() {
            simulate(depth, steps);
        }
    };
    steps.beside(simulate, |steps| {
        if let Some(built) = built {
            let chosen = match depth {
                Depth::Day => servers::oldest_and_newest(&found),
                Depth::Night => found.clone(),
            };
            let lanes = lanes(&built, &found, &chosen, depth);
            steps.run("tests, beside the simulator", || {
                programs::run_lanes(lanes, &mut tally)
            });
        }
    });
    Ok(tally)
}

/// Runs the simulator: the unchanged library, the planted faults, the scenarios that the library
/// must pass, and the expected violations.
fn simulate(depth: Depth, steps: &mut Steps) {
    // Some planted faults need more seeds than the bound by day. The simulator lists them.
    // Each night has seeds of its own; a failure names its seed.
    let (first, [seeds, faults, scenarios, ticks]) = match depth {
        Depth::Day => (0, ["1000", "400", "80", "1"]),
        Depth::Night => (night() * 5_000, ["5000", "2000", "150", "2"]),
    };
    let runs = format!(
        "simulator, seeds: sim --seed {first} --seeds {seeds}\n\
         simulator, doubled requests: sim --fault doubled --seeds {scenarios}\n\
         simulator, planted faults: sim --mutants --at-most {faults}\n\
         simulator, scenarios: sim --scenarios --seeds {scenarios}\n\
         simulator, expected violations: sim --expected --seeds {scenarios}\n\
         small worlds: sim --small {ticks}\n\
         small worlds, planted faults: sim --small 2 --mutants"
    );
    let by_day = runs.lines().count() - usize::from(depth == Depth::Day);
    steps.follow(runs.lines().take(by_day), &[]);
}

/// Returns the number of the day.
fn night() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / 86_400)
}

/// Returns the runs of one whole test: a lane that computes, and a lane that waits, on the `chosen`
/// servers.
pub(crate) fn lanes(
    built: &[Program],
    found: &[Server],
    chosen: &[Server],
    depth: Depth,
) -> Vec<Vec<Run>> {
    let (all, chosen) = (servers::list(found), servers::list(chosen));
    let cores = cores();
    let prepared = |mut run: Run| {
        // What only some servers have is tested on each that has it.
        run.command.env("REDLATCH_ALL_SERVERS", &all);
        match depth {
            Depth::Day => run.command.env("REDLATCH_SEEDS", "60"),
            Depth::Night => run.command.envs(NIGHT),
        };
        run
    };
    let place = |program: &Program| WAITING.iter().position(|(name, _)| *name == program.name);
    let mut computing = vec![documentation()];
    let mut waiting = Vec::new();
    for program in built {
        match place(program) {
            None => computing.push(prepared(program.run(&all, cores, "4"))),
            Some(place) => {
                let threads = WAITING[place].1 * cores;
                let run = prepared(program.run(&chosen, threads, "0"));
                waiting.push((place, run));
            }
        }
    }
    waiting.sort_by_key(|(place, _)| *place);
    vec![computing, waiting.into_iter().map(|(_, run)| run).collect()]
}

/// Returns the number of processors.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get)
}

/// Returns the run of the examples in the documentation.
fn documentation() -> Run {
    Run {
        name: "documentation".to_owned(),
        command: tool(["doc-tests"]),
        again: format!("{WHOLE} --doc --"),
    }
}
