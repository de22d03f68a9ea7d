//! The command line.

use std::{collections::BTreeMap, fs::File, path::PathBuf, process::ExitCode, sync::Arc};

use clap::Parser;
use serde_json::json;

use crate::{
    batch,
    faults::Fault,
    mutants,
    scenarios::{self, Scenario},
    small::run as small,
    workload::{self, KINDS, Kind},
    world::{Options, Report, run},
};

/// Runs seeds and reports the results
#[derive(Clone, Debug, Parser)]
#[command(bin_name = "cargo xtask sim")]
pub struct Args {
    /// Run N seeds, 1000 by default
    #[arg(long, value_name = "N", conflicts_with = "mutants")]
    seeds: Option<u64>,
    /// Start with seed S; without --seeds it runs that one and tells its story
    #[arg(long = "seed", value_name = "S")]
    first: Option<u64>,
    /// All seeds work on this kind, such as lock or latch; without it each seed draws its own
    #[arg(long, value_name = "NAME", value_parser = kind)]
    kind: Option<Kind>,
    /// This class of faults is on in every seed; it may break promises
    #[arg(long = "fault", value_name = "NAME", value_parser = fault)]
    faults: Vec<Fault>,
    /// Put every seed into this world, whose faults may break promises
    #[arg(long, value_name = "NAME", value_parser = scenario)]
    scenario: Option<&'static Scenario>,
    /// Write the holds of the seeds for redlatch timeline
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write them for the judge of cargo xtask check histories
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Run with a planted fault
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
    /// Hunt every planted fault, each for 2000 seeds; one that is not found is a failure
    #[arg(long)]
    mutants: bool,
    /// Hunt each for N seeds; those that are known to need more are left out below 2000
    #[arg(long, value_name = "N", default_value_t = HUNTED)]
    at_most: u64,
    /// Run 500 seeds (or --seeds) of each scenario that the library has to pass
    #[arg(long)]
    scenarios: bool,
    /// Explore all orders of events in the small worlds, in which so many ticks pass
    #[arg(long, value_name = "TICKS")]
    small: Option<u8>,
    /// Run 500 seeds (or --seeds) of each fault after which two holders are expected, and look for
    /// them and for late writes that the token stops
    #[arg(long)]
    expected: bool,
    #[arg(skip)]
    options: Options,
}

/// The number of seeds for which a planted fault is hunted.
const HUNTED: u64 = 2000;

impl Args {
    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// Returns a description of a wrong argument. The process ends if it is no argument at all.
    pub fn read() -> Result<Self, String> {
        let mut args = Self::parse();
        args.options = args.options()?;
        Ok(args)
    }

    /// Returns the options of each seed. A planted fault selects its kind and its scenario, unless
    /// other arguments do.
    fn options(&self) -> Result<Options, String> {
        let create = |path: &PathBuf| match File::create(path) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => Err(format!("{}: {error}", path.display())),
        };
        let many = self.mutants || self.expected || self.scenarios;
        let mut options = Options {
            faults: self.faults.clone(),
            kind: self.kind,
            scenario: self.scenario,
            told: self.first.is_some() && self.seeds.is_none() && !many,
            record: self.record.as_ref().map(create).transpose()?,
            history: self.history.as_ref().map(create).transpose()?,
            ..Options::default()
        };
        if let Some(name) = &self.mutant {
            let found = mutants::find(name);
            let (kind, mutant) = found.ok_or_else(|| format!("no mutant {name:?}"))?;
            mutant.check()?;
            options.kind.get_or_insert(kind);
            options.scenario = options
                .scenario
                .or_else(|| mutant.within.and_then(scenarios::find));
            options.faults.extend(mutant.under);
            options.mutant = Some(mutant);
        }
        Ok(options)
    }

    fn first(&self) -> u64 {
        self.first.unwrap_or(0)
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

fn kind(name: &str) -> Result<Kind, String> {
    let all = KINDS.iter().map(|kind| kind.name);
    known("kind", name, workload::find, all)
}

fn fault(name: &str) -> Result<Fault, String> {
    let all = Fault::ALL.iter().map(|fault| fault.name());
    known("fault", name, Fault::find, all)
}

fn scenario(name: &str) -> Result<&'static Scenario, String> {
    let all = scenarios::all().map(|scenario| scenario.name);
    known("scenario", name, scenarios::find, all)
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
    let report = run(args.first(), &args.options);
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
    let sum = batch::seeds(
        args.first(),
        args.seeds.unwrap_or(1000),
        &args.options,
        false,
    );
    println!("{sum}");
    if args.options.mutant.is_none() {
        // `cargo xtask evidence` reads the line.
        let scenario = args.options.scenario.map(|scenario| scenario.name);
        let kinds = sum.kinds.iter().map(|(kind, tally)| (kind, tally.totals()));
        let kinds: BTreeMap<_, _> = kinds.collect();
        let totals = json!({"record": "seeds", "scenario": scenario, "kinds": kinds});
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
        let end = match batch::hunt(kind, mutant, args.first(), most) {
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
        let sum = batch::seeds(args.first(), args.seeds.unwrap_or(500), &options, false);
        let tally = sum.tally();
        println!("{}: two holders in {} of {} seeds, {} late writes stopped by the token, {} violations of anything else", fault.name(), tally.two_holders, tally.seeds, tally.stopped, tally.broken);
        for report in sum.broken.iter().take(5) {
            println!("  seed {}: {} {}", report.seed, report.violations[0].promise, report.violations[0].what);
        }
        tally.two_holders > 0 && tally.stopped > 0 && sum.broken.is_empty()
    })
}
