//! The command line.

use std::{collections::BTreeMap, fs::File, process::ExitCode, sync::Arc};

use clap::Parser;
use serde_json::json;

use crate::{
    batch,
    faults::Fault,
    mutants::{self, Mutant},
    scenarios::{self, Scenario},
    small::run as small,
    watch::Violation,
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
    #[command(flatten)]
    options: Options,
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
}

/// The number of seeds for which a planted fault is hunted.
const HUNTED: u64 = 2000;

impl Args {
    /// Reads the arguments. The process ends if they are wrong. A planted fault selects its kind
    /// and its scenario, unless other arguments do.
    pub fn read() -> Self {
        let mut args = Self::parse();
        let many = args.mutants || args.expected || args.scenarios;
        let options = &mut args.options;
        options.told = args.first.is_some() && args.seeds.is_none() && !many;
        if let Some(mutant) = options.mutant {
            let kind = || mutants::find(mutant.name).map(|(kind, _)| kind);
            options.kind = options.kind.or_else(kind);
            let within = || scenarios::find(mutant.within?);
            options.scenario = options.scenario.or_else(within);
            options.faults.extend(mutant.under);
        }
        args
    }

    fn first(&self) -> u64 {
        self.first.unwrap_or(0)
    }

    /// Returns the command that runs one of these seeds again and prints its story.
    fn replay(&self, report: &Report) -> String {
        let (options, seed, kind) = (&self.options, report.seed, report.kind);
        let mut words = vec![format!("cargo xtask sim --seed {seed} --kind {kind}")];
        let faults = options.faults.iter();
        words.extend(faults.map(|fault| format!("--fault {}", fault.name())));
        words.extend(options.scenario.map(|it| format!("--scenario {}", it.name)));
        words.extend(options.mutant.map(|it| format!("--mutant {}", it.name)));
        words.join(" ")
    }
}

pub(crate) fn kind(name: &str) -> Result<Kind, String> {
    known("kind", name, workload::find, KINDS.iter().map(|it| it.name))
}

pub(crate) fn mutant(name: &str) -> Result<Mutant, String> {
    let (_, mutant) = mutants::find(name).ok_or("there is no such fault")?;
    mutant.check()?;
    Ok(mutant)
}

pub(crate) fn create(path: &str) -> Result<Arc<File>, String> {
    let file = File::create(path).map_err(|error| error.to_string());
    file.map(Arc::new)
}

pub(crate) fn scenario(name: &str) -> Result<&'static Scenario, String> {
    let all = scenarios::all().map(|it| it.name);
    known("scenario", name, scenarios::find, all)
}

/// Finds the `what` called `name`. The error lists `all` names.
fn known<T>(
    what: &str,
    name: &str,
    find: fn(&str) -> Option<T>,
    all: impl Iterator<Item = &'static str>,
) -> Result<T, String> {
    find(name).ok_or_else(|| {
        let names = all.collect::<Vec<_>>().join(", ");
        format!("no {what} {name:?}; there are {names}")
    })
}

/// Runs the task of the arguments.
pub fn main(args: &Args) -> ExitCode {
    let kind = args.options.kind.map(|kind| kind.name);
    let good = match args.small {
        Some(ticks) if args.mutants => small::hunt(ticks, kind),
        Some(ticks) => small::explore(ticks, kind),
        None if args.mutants => hunt_mutants(args),
        None if args.expected => expect(args),
        None if args.scenarios => run_scenarios(args),
        None if args.options.told => tell(args),
        None => run_seeds(args),
    };
    ExitCode::from(u8::from(!good))
}

fn tell(args: &Args) -> bool {
    let report = run(args.first(), &args.options);
    report.story.iter().for_each(|line| println!("{line}"));
    let (grants, broken) = (report.tally.grants, report.violations.len());
    println!("{grants} grants, {broken} violations");
    broken == 0
}

fn run_seeds(args: &Args) -> bool {
    let count = args.seeds.unwrap_or(1000);
    let sum = batch::seeds(args.first(), count, &args.options, false);
    println!("{sum}");
    if args.options.mutant.is_none() {
        // `cargo xtask evidence` reads the line.
        let scenario = args.options.scenario.map(|scenario| scenario.name);
        let kinds = sum.kinds.iter().map(|(kind, tally)| (kind, tally.totals()));
        let kinds: BTreeMap<_, _> = kinds.collect();
        let broken: Vec<_> = sum.broken.iter().map(|report| report.seed).collect();
        let totals = json!({
            "record": "seeds", "scenario": scenario, "kinds": kinds,
            "first": args.first(), "count": count, "broken": broken,
        });
        println!("{totals}");
    }
    let lacking = sum.lacking(&args.options);
    for what in &lacking {
        println!("these seeds show nothing: {what}");
    }
    for report in sum.broken.iter().take(20) {
        let Violation { promise, what } = &report.violations[0];
        println!("seed {}: {promise} is broken: {what}", report.seed);
        println!("  {}", args.replay(report));
    }
    if let Some(first) = sum.broken.first() {
        let told = Options {
            told: true,
            history: None,
            ..args.options.clone()
        };
        let story = run(first.seed, &told).story;
        let broken = story.iter().position(|line| line.contains("!!!"));
        let end = broken.map_or(story.len(), |at| at + 1);
        println!("the end of the story of seed {}:", first.seed);
        let lines = &story[end.saturating_sub(61)..end];
        lines.iter().for_each(|line| println!("{line}"));
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
                let Violation { promise, what } = &report.violations[0];
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
