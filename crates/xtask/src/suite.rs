//! The test suite.

use std::{num::NonZero, path::Path, thread};

use crate::{
    command::{cargo, yielding},
    programs::{self, Program, Run, WHOLE},
    python,
    servers::{self, Server},
    sim,
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
    let simulator = steps.run("simulator", sim::build);
    let simulated = thread::scope(|scope| {
        let simulator = scope.spawn(|| {
            let mut own = Steps::default();
            if simulator.is_some() {
                sim::all(depth, &mut own);
            }
            own
        });
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
        simulator.join()
    });
    steps.add(simulated.map_err(|_| "the simulator's steps panicked")?);
    Ok(tally)
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
    let cores = thread::available_parallelism().map_or(2, NonZero::get);
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
            None => {
                let mut run = program.run(&all, cores);
                run.command = yielding(run.command);
                computing.push(prepared(run));
            }
            Some(place) => {
                let threads = WAITING[place].1 * cores;
                let run = prepared(program.run(&chosen, threads));
                waiting.push((place, run));
            }
        }
    }
    waiting.sort_by_key(|(place, _)| *place);
    vec![computing, waiting.into_iter().map(|(_, run)| run).collect()]
}

/// Returns the run of the examples in the documentation.
fn documentation() -> Run {
    let mut command = yielding(cargo(WHOLE));
    command.args(["--doc", "--no-fail-fast"]);
    Run {
        name: "documentation".to_owned(),
        command,
        again: format!("cargo {} --doc --", WHOLE.join(" ")),
    }
}

/// Runs the tests of the Python client, a few hundred holds of both clients side by side, and a
/// short deploy from two other libraries.
pub(crate) fn python(peers: &Path, servers: &str, steps: &mut Steps) {
    if let Some(python) = steps.run("python client", || python::test(servers)) {
        steps.run("rust beside python", || {
            python::peers(peers, &python, "200", servers)
        });
        // The libraries that need no other toolchain. `check peers` has all of them.
        steps.run("beside redis-py and rslock", || {
            let only = ["redis-py", "rslock"];
            python::libraries(peers, &python, &only, ["300", "4"], servers)
        });
    }
}
