//! Runs many seeds on all cores.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs seeds on threads of its own and measures how long that takes"
)]

use std::{
    collections::BTreeMap,
    fmt, panic,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    faults::Fault,
    mutants::Mutant,
    scenarios,
    watch::{Tally, Violation},
    workload::Kind,
    world::{Options, Report, run},
};

/// The results of many runs.
#[derive(Debug, Default)]
pub struct Sum {
    /// The number of runs.
    pub seeds: u64,
    /// Seeds with broken promises, the lowest first.
    pub broken: Vec<Report>,
    /// The number of seeds in which two holders were seen where they are expected.
    pub two_holders: u64,
    /// The sums of all runs.
    pub tally: Tally,
    /// Virtual time in µs.
    pub lasted: u64,
    /// The longest convergence of any run, in µs: the time from the end of all faults until every
    /// worker had acquired every name.
    pub converged: u64,
    /// Wall time.
    pub took: Duration,
    /// The totals of each kind, for the page of evidence.
    pub kinds: BTreeMap<&'static str, Totals>,
}

/// The totals of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// The number of runs.
    pub seeds: u64,
    /// Virtual time in µs.
    pub micros: u64,
    /// The number of injected faults.
    pub faults: u64,
    /// The number of delivered guards.
    pub grants: u64,
    /// The number of runs with broken promises.
    pub broken: u64,
}

/// Runs `count` seeds from `first` on; if `hunting`, only until the first violation.
pub fn seeds(first: u64, count: u64, options: &Options, hunting: bool) -> Sum {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let found = AtomicBool::new(false);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Sum::default();
    thread::scope(|scope| {
        let work = || {
            let mut sum = Sum::default();
            while !(hunting && found.load(Ordering::Relaxed)) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    break;
                }
                let report = guarded(first + at, options);
                if !report.violations.is_empty() {
                    found.store(true, Ordering::Relaxed);
                }
                sum.merge(Sum::of(report));
            }
            sum
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Ok(part) = worker.join() {
                sum.merge(part);
            }
        }
    });
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
    seeds(first, count, &options, true)
        .broken
        .into_iter()
        .next()
}

/// Runs a seed. A panic of the library is a violation too.
fn guarded(seed: u64, options: &Options) -> Report {
    panic::catch_unwind(panic::AssertUnwindSafe(|| run(seed, options))).unwrap_or_else(|_| Report {
        seed,
        kind: options.kind_of(seed).name,
        violations: vec![Violation {
            promise: "panic",
            at: 0,
            what: "it panicked".to_owned(),
        }],
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
        if by_hand || options.mutant.is_some() || self.seeds < FEW {
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
                let times = self.tally.faults.get(fault).copied().unwrap_or(0);
                let what = format!("{} came {times} times", fault.name());
                needs(times > self.seeds / 10, what);
            }
            let apart = scenario.servers_differ > scenario.allowance;
            let shows = apart || scenario.replicated && scenario.expects_trouble;
            let what = "the expected violation did not appear: no two holders".to_owned();
            needs(!shows || self.two_holders > 0, what);
        } else {
            let locked = self.tally.grants > self.seeds * 20;
            needs(locked, "hardly anything was locked".to_owned());
            let merged = self.tally.lists.entries > self.seeds;
            needs(merged, "hardly any call was merged".to_owned());
        }
        lacking
    }

    fn of(report: Report) -> Self {
        let broken = !report.violations.is_empty();
        let totals = Totals {
            seeds: 1,
            micros: report.lasted,
            faults: report.tally.faults.values().sum(),
            grants: report.tally.grants,
            broken: u64::from(broken),
        };
        Self {
            seeds: 1,
            two_holders: u64::from(report.two_holders),
            tally: report.tally.clone(),
            lasted: report.lasted,
            converged: report.converged,
            took: Duration::ZERO,
            kinds: [(report.kind, totals)].into(),
            broken: broken.then_some(report).into_iter().collect(),
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.two_holders += other.two_holders;
        self.lasted += other.lasted;
        self.converged = self.converged.max(other.converged);
        self.tally.add(&other.tally);
        self.broken.extend(other.broken);
        for (kind, totals) in other.kinds {
            self.kinds.entry(kind).or_default().add(&totals);
        }
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.micros += other.micros;
        self.faults += other.faults;
        self.grants += other.grants;
        self.broken += other.broken;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wall = self.took.as_secs_f64().max(1e-6);
        let virtual_seconds = self.lasted / 1_000_000;
        writeln!(
            f,
            "{} seeds in {wall:.1} s ({:.0} per second), {virtual_seconds} virtual seconds",
            self.seeds,
            self.seeds as f64 / wall
        )?;
        writeln!(
            f,
            "{} grants, {} losses told, {} late writes stopped by the token",
            self.tally.grants, self.tally.losses, self.tally.stopped
        )?;
        let lists = &self.tally.lists;
        writeln!(
            f,
            "{} lists had {} entries, {} at most in one",
            lists.calls, lists.entries, lists.largest
        )?;
        let faults: Vec<_> = Fault::ALL
            .iter()
            .filter_map(|fault| {
                let count = self.tally.faults.get(fault)?;
                Some(format!("{} {count}", fault.name()))
            })
            .collect();
        writeln!(f, "faults: {}", faults.join(", "))?;
        let converged = self.converged as f64 / 1e6;
        writeln!(
            f,
            "once all was healed everybody got on within {converged:.1} s"
        )?;
        write!(
            f,
            "{} seeds with two holders where expected, {} with violations",
            self.two_holders,
            self.broken.len()
        )
    }
}
