//! The command line.

use std::{fs::File, process::ExitCode, sync::Arc};

use serde_json::json;

use crate::{
    batch,
    faults::Fault,
    mutants,
    scenarios::{self, Scenario},
    small::run as small,
    workload::{self, KINDS},
    world::{Options, Report, run},
};

/// The parsed arguments.
#[derive(Clone, Debug)]
pub struct Args {
    first: u64,
    seeds: Option<u64>,
    at_most: u64,
    options: Options,
    mutants: bool,
    expected: bool,
    scenarios: bool,
    small: Option<u8>,
}

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask sim [--seeds N] [--seed S] [--kind NAME] [--fault NAME]… [--scenario NAME] [--record FILE] [--history FILE] [--mutant NAME | --mutants [--at-most N] | --expected | --scenarios | --small TICKS [--mutants]]

  --seeds N     runs N seeds, 1000 by default
  --seed S      starts with seed S; without --seeds it runs that one and tells its story
  --kind NAME   all seeds work on this kind, such as lock or latch; without it each seed draws its own
  --fault NAME  this class of faults is on in every seed; it may break promises
  --scenario NAME puts every seed into this world, whose faults may break promises
  --record FILE writes the holds of the seeds for redlatch timeline
  --history FILE writes them for the judge of cargo xtask check histories
  --mutant NAME runs with a planted fault
  --mutants     hunts every planted fault, each for 2000 seeds; one that is not found is a failure
  --at-most N   hunts each for N seeds; those that are known to need more are left out below 2000
  --scenarios   runs 500 seeds (or --seeds) of each scenario that the library has to pass
  --small TICKS explores all orders of events in the small worlds, in which so many ticks pass
  --expected    runs 500 seeds (or --seeds) of each fault after which two holders are expected, and looks for them and for late writes that the token stops";

/// The number of seeds for which a planted fault is hunted.
const HUNTED: u64 = 2000;

impl Args {
    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// Returns a description of the wrong argument.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            first: 0,
            seeds: None,
            at_most: HUNTED,
            options: Options::default(),
            mutants: false,
            expected: false,
            scenarios: false,
            small: None,
        };
        let mut seed = None;
        while let Some(arg) = args.next() {
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            let mut value = || {
                inline
                    .clone()
                    .or_else(|| args.next())
                    .ok_or_else(|| format!("{name} needs a value"))
            };
            if name == "--seed" {
                seed = Some(number(&value()?)?);
            } else {
                parsed.set(&name, value)?;
            }
        }
        if parsed.mutants && parsed.seeds.is_some() {
            return Err("--mutants takes --at-most instead of --seeds".to_owned());
        }
        parsed.first = seed.unwrap_or(0);
        let many = parsed.mutants || parsed.expected || parsed.scenarios;
        if seed.is_some() && parsed.seeds.is_none() && !many {
            parsed.options.told = true;
            parsed.seeds = Some(1);
        }
        Ok(parsed)
    }

    /// Applies the argument `name`. Arguments with a value take it from `value`.
    fn set(
        &mut self,
        name: &str,
        mut value: impl FnMut() -> Result<String, String>,
    ) -> Result<(), String> {
        match name {
            "--seeds" => self.seeds = Some(number(&value()?)?),
            "--at-most" => self.at_most = number(&value()?)?,
            "--kind" => {
                let all = KINDS.iter().map(|kind| kind.name);
                let kind = known("kind", &value()?, workload::find, all)?;
                self.options.kind = Some(kind);
            }
            "--fault" => {
                let all = Fault::ALL.iter().map(|fault| fault.name());
                let fault = known("fault", &value()?, Fault::find, all)?;
                self.options.faults.push(fault);
            }
            "--scenario" => {
                let all = scenarios::all().map(|scenario| scenario.name);
                let scenario = known("scenario", &value()?, scenarios::find, all)?;
                self.options.scenario = Some(scenario);
            }
            "--mutant" => self.plant(&value()?)?,
            "--record" => self.options.record = Some(create(&value()?)?),
            "--history" => self.options.history = Some(create(&value()?)?),
            "--mutants" => self.mutants = true,
            "--expected" => self.expected = true,
            "--scenarios" => self.scenarios = true,
            "--small" => {
                let ticks = number(&value()?)?;
                self.small = Some(u8::try_from(ticks).map_err(|_| format!("{ticks} ticks"))?);
            }
            "--help" | "-h" => return Err("the simulator".to_owned()),
            _ => return Err(format!("unknown argument {name}")),
        }
        Ok(())
    }

    /// Plants the fault called `name`. It selects its kind and its scenario, unless earlier
    /// arguments did.
    fn plant(&mut self, name: &str) -> Result<(), String> {
        let (kind, mutant) = mutants::find(name).ok_or_else(|| format!("no mutant {name:?}"))?;
        mutant.check()?;
        self.options.kind.get_or_insert(kind);
        if let Some(scenario) = mutant.within.and_then(scenarios::find) {
            self.options.scenario.get_or_insert(scenario);
        }
        self.options.faults.extend(mutant.under);
        self.options.mutant = Some(mutant);
        Ok(())
    }

    /// Returns the command that runs one of these seeds again and prints its story.
    fn replay(&self, report: &Report) -> String {
        let mut command = format!(
            "cargo xtask sim --seed {} --kind {}",
            report.seed, report.kind
        );
        for fault in &self.options.faults {
            command.push_str(&format!(" --fault {}", fault.name()));
        }
        if let Some(scenario) = self.options.scenario {
            command.push_str(&format!(" --scenario {}", scenario.name));
        }
        if let Some(mutant) = self.options.mutant {
            command.push_str(&format!(" --mutant {}", mutant.name));
        }
        command
    }
}

fn create(path: &str) -> Result<Arc<File>, String> {
    let file = File::create(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(Arc::new(file))
}

/// Finds the `what` called `name`. The error lists `all` names.
fn known<T>(
    what: &str,
    name: &str,
    find: impl Fn(&str) -> Option<T>,
    all: impl Iterator<Item: Into<String>>,
) -> Result<T, String> {
    find(name).ok_or_else(|| {
        let names: Vec<String> = all.map(Into::into).collect();
        format!("no {what} {name:?}; there are {}", names.join(", "))
    })
}

/// Runs the task of the arguments.
pub fn main(args: &Args) -> ExitCode {
    let good = if let Some(ticks) = args.small {
        let kind = args.options.kind.map(|kind| kind.name);
        match args.mutants {
            true => small::hunt(ticks, kind),
            false => small::explore(ticks, kind),
        }
    } else if args.mutants {
        hunt_mutants(args)
    } else if args.expected {
        expect(args)
    } else if args.scenarios {
        run_scenarios(args)
    } else if args.options.told {
        tell(args)
    } else {
        run_seeds(args)
    };
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn tell(args: &Args) -> bool {
    let report = run(args.first, &args.options);
    for line in &report.story {
        println!("{line}");
    }
    println!(
        "{} grants, {} violations",
        report.tally.grants,
        report.violations.len()
    );
    report.violations.is_empty()
}

fn run_seeds(args: &Args) -> bool {
    let sum = batch::seeds(args.first, args.seeds.unwrap_or(1000), &args.options, false);
    println!("{sum}");
    if args.options.mutant.is_none() {
        // `cargo xtask evidence` reads the line.
        let scenario = args.options.scenario.map(|scenario| scenario.name);
        let totals = json!({"record": "seeds", "scenario": scenario, "kinds": sum.kinds});
        println!("{totals}");
    }
    let lacking = sum.lacking(&args.options);
    for what in &lacking {
        println!("these seeds show nothing: {what}");
    }
    for report in sum.broken.iter().take(20) {
        let violation = &report.violations[0];
        println!(
            "seed {}: {} is broken: {}",
            report.seed, violation.promise, violation.what
        );
        println!("  {}", args.replay(report));
    }
    if let Some(first) = sum.broken.first() {
        let told = Options {
            told: true,
            history: None,
            ..args.options.clone()
        };
        let story = run(first.seed, &told).story;
        let end = story
            .iter()
            .position(|line| line.contains("!!!"))
            .unwrap_or_else(|| story.len().saturating_sub(1));
        println!("the end of the story of seed {}:", first.seed);
        for line in &story[end.saturating_sub(60)..=end.min(story.len().saturating_sub(1))] {
            println!("{line}");
        }
    }
    sum.broken.is_empty() && lacking.is_empty()
}

/// Runs the scenarios that the library has to pass.
fn run_scenarios(args: &Args) -> bool {
    let run = |scenario: &'static Scenario| {
        println!("scenario {}:", scenario.name);
        let options = Options {
            scenario: Some(scenario),
            ..args.options.clone()
        };
        let args = Args {
            seeds: Some(args.seeds.unwrap_or(500)),
            options,
            ..args.clone()
        };
        run_seeds(&args)
    };
    let passed: Vec<_> = scenarios::all().map(run).collect();
    passed.into_iter().all(|passed| passed)
}

fn hunt_mutants(args: &Args) -> bool {
    let wanted = args.options.kind.map(|kind| kind.name);
    let all = mutants::all().filter(|(kind, _)| wanted.is_none_or(|name| name == kind.name));
    let (slow, hunted): (Vec<_>, Vec<_>) =
        all.partition(|(_, mutant)| args.at_most < HUNTED && mutant.slow);
    let mut checks = hunted.iter().map(|(_, mutant)| mutant.check());
    if let Some(message) = checks.find_map(Result::err) {
        println!("{message}");
        return false;
    }
    let most = args.at_most;
    let mut survivors = Vec::new();
    for &(kind, mutant) in &hunted {
        let end = match batch::hunt(kind, mutant, args.first, most) {
            Some(report) => {
                let violation = &report.violations[0];
                let (promise, what) = (violation.promise, &violation.what);
                format!("found at seed {:5} by {promise:4} {what}", report.seed)
            }
            None => {
                survivors.push(mutant.name);
                format!("SURVIVED {most} seeds")
            }
        };
        println!("{:9} {:26} {end}", kind.name, mutant.name);
    }
    let found = hunted.len() - survivors.len();
    println!("{found} planted faults were found within {most} seeds each");
    if !slow.is_empty() {
        let names: Vec<_> = slow.iter().map(|(_, mutant)| mutant.name).collect();
        let (left, names) = (names.len(), names.join(", "));
        println!("{left} need more seeds and were left out: {names}");
    }
    if !survivors.is_empty() {
        println!("{} SURVIVED: {}", survivors.len(), survivors.join(", "));
    }
    survivors.is_empty()
}

fn expect(args: &Args) -> bool {
    Fault::EXPECTED.into_iter().all(|fault| {
        let options = Options { faults: vec![fault], ..args.options.clone() };
        let sum = batch::seeds(args.first, args.seeds.unwrap_or(500), &options, false);
        println!("{}: two holders in {} of {} seeds, {} late writes stopped by the token, {} violations of anything else", fault.name(), sum.two_holders, sum.seeds, sum.tally.stopped, sum.broken.len());
        for report in sum.broken.iter().take(5) {
            println!("  seed {}: {} {}", report.seed, report.violations[0].promise, report.violations[0].what);
        }
        sum.two_holders > 0 && sum.tally.stopped > 0 && sum.broken.is_empty()
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}
