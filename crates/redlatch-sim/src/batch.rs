//! Runs many seeds on all cores.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs seeds on threads of its own and measures how long that takes"
)]

use std::{
    collections::BTreeMap,
    fmt, panic,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    exec::lock,
    mutants::Mutant,
    scenarios,
    watch::{Tally, Violation},
    workload::Kind,
    world::{Options, Report, run},
};

/// The results of many runs.
#[derive(Debug, Default)]
pub struct Sum {
    /// Seeds with broken promises, the lowest first.
    pub broken: Vec<Report>,
    /// Wall time.
    pub took: Duration,
    /// The sums of each kind.
    pub kinds: BTreeMap<&'static str, Tally>,
}

/// Runs `count` seeds from `first` on; if `hunting`, only until the first violation.
pub fn seeds(first: u64, count: u64, options: &Options, hunting: bool) -> Sum {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let sum = Mutex::new(Sum::default());
    let work = || {
        while !hunting || lock(&sum).broken.is_empty() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let report = guarded(first + at, options);
            lock(&sum).count(report);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut sum = std::mem::take(&mut *lock(&sum));
    sum.broken.sort_by_key(|report| report.seed);
    sum.took = began.elapsed();
    sum
}

/// Hunts one mutant; returns the report of the seed that found it.
///
/// # Panics
///
/// Panics if the script does not contain the text that the mutant replaces, or if this build cannot
/// plant the mutant.
pub fn hunt(kind: Kind, mutant: Mutant, first: u64, count: u64) -> Option<Report> {
    // These checks are outside of the seeds, where a panic would count as a find.
    mutant.forgery();
    if let Err(message) = mutant.check() {
        panic!("{message}");
    }
    let options = Options {
        kind: Some(kind),
        mutant: Some(mutant),
        scenario: mutant.within.and_then(scenarios::find),
        faults: mutant.under.into_iter().collect(),
        ..Options::default()
    };
    let sum = seeds(first, count, &options, true);
    sum.broken.into_iter().next()
}

/// Runs a seed. A panic of the library is a violation too.
fn guarded(seed: u64, options: &Options) -> Report {
    panic::catch_unwind(panic::AssertUnwindSafe(|| run(seed, options))).unwrap_or_else(|_| Report {
        seed,
        kind: options.kind_of(seed).name,
        violations: vec![Violation {
            promise: "panic",
            what: "it panicked".to_owned(),
        }],
        tally: Tally {
            seeds: 1,
            broken: 1,
            ..Tally::default()
        },
        ..Report::default()
    })
}

/// Fewer seeds than this need not have everything that happens often.
const FEW: u64 = 50;

impl Sum {
    /// Returns what did not happen in these seeds, although they would show nothing without it. A
    /// kind or a fault that was chosen by hand may lack it.
    pub fn lacking(&self, options: &Options) -> Vec<String> {
        let by_hand = options.kind.is_some() || !options.faults.is_empty();
        let tally = self.tally();
        if by_hand || options.mutant.is_some() || tally.seeds < FEW {
            return Vec::new();
        }
        let mut lacking = Vec::new();
        let mut needs = |there: bool, what: String| {
            if !there {
                lacking.push(what);
            }
        };
        if let Some(scenario) = options.scenario {
            for fault in scenario.faults {
                let times = tally.faults.get(fault).copied().unwrap_or(0);
                let what = format!("{} came {times} times", fault.name());
                needs(times > tally.seeds / 10, what);
            }
            let apart = scenario.servers_differ > scenario.allowance;
            let shows = apart || scenario.replicated && scenario.expects_trouble;
            let what = "the expected violation did not appear: no two holders".to_owned();
            needs(!shows || tally.two_holders > 0, what);
        } else {
            for (kind, tally) in &self.kinds {
                let granted = tally.grants > tally.seeds * 10;
                needs(granted, format!("there were few grants of {kind}"));
            }
            let merged = tally.entries > tally.seeds;
            needs(merged, "hardly any call was merged".to_owned());
        }
        lacking
    }

    /// Returns the sums of all runs.
    pub fn tally(&self) -> Tally {
        let mut all = Tally::default();
        self.kinds.values().for_each(|kind| all.add(kind));
        all
    }

    fn count(&mut self, report: Report) {
        let kind = self.kinds.entry(report.kind).or_default();
        kind.add(&report.tally);
        self.broken.extend(Some(report).filter(Report::is_broken));
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = self.tally();
        let wall = self.took.as_secs_f64().max(1e-6);
        let rate = tally.seeds as f64 / wall;
        let faults = tally.faults.iter();
        let faults = faults.map(|(fault, count)| format!("{} {count}", fault.name()));
        let faults = faults.collect::<Vec<_>>().join(", ");
        let (seeds, lasted, two) = (tally.seeds, tally.lasted / 1_000_000, tally.two_holders);
        let (grants, losses, stopped) = (tally.grants, tally.losses, tally.stopped);
        let (lists, entries, most) = (tally.lists, tally.entries, tally.largest);
        let (converged, broken) = (tally.converged as f64 / 1e6, tally.broken);
        write!(
            f,
            "{seeds} seeds in {wall:.1} s ({rate:.0} per second), {lasted} virtual seconds\n\
             {grants} grants, {losses} losses told, {stopped} late writes stopped by the token\n\
             {lists} lists had {entries} entries, {most} at most in one\n\
             faults: {faults}\n\
             once all was healed everybody got on within {converged:.1} s\n\
             {two} seeds with two holders where expected, {broken} with violations"
        )
    }
}
